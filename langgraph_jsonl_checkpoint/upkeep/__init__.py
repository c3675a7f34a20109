"""What is done to whole logs: checking, salvaging, copying and pruning them."""
