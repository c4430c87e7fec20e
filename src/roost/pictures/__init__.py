"""The one place that draws: overlays, charts and pages, as files that need neither a script nor a network."""
