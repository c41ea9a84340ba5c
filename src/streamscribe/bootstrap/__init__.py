"""The composition root: the only room that knows every adapter. It joins the parts and owns what runs.

Nothing is imported here: each role of a process loads what it runs.
"""
