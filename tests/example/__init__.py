"""A package of somebody who uses Roost, and edits nothing of it: a module, a router and a machine of
their own.
"""
