"""From documents to chunks, entities and facts."""
