"""Follow a run with an object of your own: anything with `on(event)` hears what happens, as it happens.

The events stand in fedcode/events.py: RunStarted, RoundStarted, ClientDone, RoundDone, RunDone.
"""

import fedcode
from fedcode.events import Event, RoundDone


class Stopwatch:
    """Adds up the time that rounds take, and says the accuracy of each."""

    seconds = 0.0

    def on(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self.seconds += sum(event.record["seconds"].values())
            print(f"round {event.record['round']}: {event.record['accuracy']:.1%} after {self.seconds:.1f} s")


if __name__ == "__main__":
    watch = Stopwatch()
    fedcode.simulate("fedcode", clients=4, rounds=3, epochs=1, observers=[watch])
    print(f"{watch.seconds:.1f} seconds in all")
