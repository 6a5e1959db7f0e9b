"""The driver's loop: propose an epoch, run it, commit and publish it; timers, drains, settings that change."""
