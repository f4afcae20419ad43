"""The LlamaIndex retriever; it arrives with a later release."""
