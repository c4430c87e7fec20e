"""Reports: a page on recorded runs, for people.

series      what a run comes to over time: traffic, delays, loads, links, decisions; in bounded memory
optimisers  one recorded workload, replayed with each optimiser alone and with all of them together
page        the page
"""
