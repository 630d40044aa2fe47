"""What every stage stands on: worker processes, console, memory, devices, ragged rows."""
