"""A package of somebody who uses Roost, and edits nothing of it: a module and a router of their own."""
