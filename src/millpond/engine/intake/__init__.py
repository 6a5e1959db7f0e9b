"""What an epoch takes in: admission and order of stages in the driver, the split reader in map tasks."""
