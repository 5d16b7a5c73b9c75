"""`make demo`: the product's main job, step by step, with the commands a user would type."""
