"""Relations of CQL as an operator: rows into stores, validity intervals, answers by instant."""
