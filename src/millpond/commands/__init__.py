"""What statements do, a file per family: a function of facts and a statement gives steps, or says why there are none.

Planning is pure: it reads facts (`pond_facts`), and no clock, lock or file; a dry run folds plans over facts. Which
family a statement belongs to is in `families`; `execution` carries plans out on an open pond. A statement is added as a
function of its family and a line of `families`, an effect that is new as a step of `planned`.
"""
