"""What the operator of a component reads in place of its inputs where there are replicas: filtered, sorted, or as one.

The door is ``stream_merging``: duplicate filters in front of an operator, and sorts where its replicas would not agree.
Nothing here knows a log or a component.
"""
