"""The requests to compile that wait for a node, and which node gets which."""
import collections


class CompileQueue:
    def __init__(self, each):
        """`each`: the most requests on their way to a node."""
        self._each = each
        # Those of a batch come before those that are only announced.
        self._urgent, self._announced = collections.deque(), collections.deque()

    def add(self, request):
        (self._urgent if request["urgent"] else self._announced).append(request)

    def drop(self, jobs):
        """Removes requests. Returns the jobs that waited here before."""
        waiting = {request["job"] for request in (*self._urgent, *self._announced)}
        self._urgent = collections.deque(r for r in self._urgent if r["job"] not in jobs)
        self._announced = collections.deque(r for r in self._announced if r["job"] not in jobs)
        return waiting

    def hand_out(self, actors):
        """The (actor, request) that go now, to actors with the fewest requests first. They count in `actor.work` and
        `actor.jobs` at once, because more requests may arrive before any of these is sent."""
        out = []
        for level in range(self._each):
            for actor in actors:
                queue = self._urgent or self._announced
                if queue and actor.work == level:
                    request = queue.popleft()
                    actor.work += 1
                    actor.jobs.add(request["job"])
                    out.append((actor, request))
        return out
