"""The LangChain retriever; it arrives with a later release."""
