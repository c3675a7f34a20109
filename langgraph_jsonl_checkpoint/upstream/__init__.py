"""All that this package knows of LangGraph's private names: when they change, only these modules have to."""
