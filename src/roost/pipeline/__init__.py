"""The data pipeline, on Spark: what a broker does with one event, it does with billions.

Functions from DataFrames to DataFrames; only `session` makes a session. Importing this package is cheap:
Spark is loaded when it is first needed.
"""
