"""What is put is what is read: equal, with the same types, each thing stored once."""
