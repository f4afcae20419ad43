"""A first look: sample documents of a made-up company, indexed and asked."""
