"""Public reports about LangGraph checkpointers, each as the smallest thing to try and its right result."""
