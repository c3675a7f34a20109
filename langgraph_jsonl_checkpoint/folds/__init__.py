"""What a log means: records in, state out. Pure: no files, clocks or locks."""
