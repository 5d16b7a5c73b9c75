"""`kubectl kvpool`: the command line over the same plans and builders."""
