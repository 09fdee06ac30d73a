"""The records of an application, which all other rooms of its life read: they decide nothing, and import none of them.

==========================  ========================================================================================
:mod:`.request`             an application at its origin, and the alternative by which it runs (``Request``)
:mod:`.members`             an application at each peer that takes part (``Member``); look-ups in component graphs
:mod:`._moves_here`         the moves in which such a peer has a part (``MovesHere``)
:mod:`.messages`            what these peers send each other, and the component graph that messages carry (``Graph``)
:mod:`.hosted_components`   the components of a peer, the users of each, and the resources that they hold
:mod:`.spark_offer`         the Spark server of a peer
:mod:`.session_config`      time limits and intervals
==========================  ========================================================================================
"""
