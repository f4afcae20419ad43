"""The knowledge graph, whatever the engine: which names are entities, how a change changes them, and edits. No SQL."""
