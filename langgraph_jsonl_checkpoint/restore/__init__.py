"""What a thread comes to when somebody goes on with it, and what its model is told."""
