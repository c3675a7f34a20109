"""What holds for every value and every order of calls, tried on generated ones."""
