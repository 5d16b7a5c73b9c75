"""The API server behind one small port, and the rules by which children are written."""
