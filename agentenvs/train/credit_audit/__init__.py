"""The credit audit: what each method says a turn was worth, against what it was worth.

The worlds fork exactly, so the advantage of every turn of an episode can be measured by playing on from it:

    Q(h, a) = mean return of continuations by the same policy after action a in history h
    V(h)    = mean return of continuations that draw the action anew
    A(h, a) = Q(h, a) - V(h)

``truth`` holds the estimate and its error, ``branching`` plays the continuations, ``credited`` asks every method about
one and the same episodes, ``agreement`` compares, ``pages`` shows; ``audit`` puts them together, in a folder that can
be gone on with.
"""
