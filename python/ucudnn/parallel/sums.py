"""Sums of gradients over the devices that share parameters, apart from the order of exchanges: in bundles, one after
the other, in a process group of their own, by a worker thread while backward goes on. Every device of a sum ends with
the same bits.

While a model runs, two functions of autograd stand between a parameter and its uses. All parameters of a sum go through
Ended when the pass begins, so torch runs its backward last; the first use of one of them sends all through Begun, whose
backward runs as soon as their gradients exist. Begun begins the sum, and Ended waits for it. Operations on a gradient
behind Ended see the sum."""
import contextlib
import itertools
import queue
import threading
import time

import torch

from .schedule import phases_of

CHUNK_BYTES = 25 * 2**20  # of one message: what is packed beside the bundle stays small


class Summed:
    """One sum on this rank."""

    def __init__(self, schedule, one, transport):
        self.id, self.devices, self.transport = one.id, one.devices, transport
        self.names, self.elements, self.phases = (), 0, ()  # names of parameters in the model
        self.schedule, self.rank = schedule, transport.rank

    def _plan(self, elements):
        if elements != self.elements:  # the first time, or because other parameters are trained
            self.elements = elements
            self.phases = [[message for message in phase if self.rank in message[:2]]
                           for phase in phases_of(self.schedule, self.devices, elements)]

    def run(self, flat):
        """Sums `flat` over the devices, in place."""
        self._plan(flat.numel())
        phases = [(phase, True) for phase in self.phases]
        phases += [([(to, sender, interval) for sender, to, interval in phase], False) for phase in reversed(self.phases)]
        for number, (phase, adds) in enumerate(phases):
            for chunk in _chunks(phase, CHUNK_BYTES // flat.element_size()):
                self._phase(flat, chunk, f"sum {self.id}, phase {number + 1}", adds)

    def _phase(self, flat, messages, what, adds):
        """Runs one phase. All intervals of one pair of devices are one message, one behind the other."""
        sends, receives = {}, {}
        for sender, to, interval in sorted(messages, key=lambda message: message[2]):
            found, peer = (sends, to) if sender == self.rank else (receives, sender)
            found.setdefault(peer, []).append(interval)
        packed = {peer: torch.cat([flat[begin:end] for begin, end in intervals]) for peer, intervals in sends.items()}
        counts = {peer: sum(end - begin for begin, end in intervals) for peer, intervals in receives.items()}
        arrived = self.transport.post(what, "update", packed, {peer: ((count,), flat.dtype) for peer, count in counts.items()},
                                      flat.device).arrived()
        for interval in sorted({interval for intervals in receives.values() for interval in intervals}):
            values = {self.rank: flat[interval[0]:interval[1]].clone()} if adds else {}
            for peer, intervals in receives.items():
                at = 0
                for begin, end in intervals:
                    if (begin, end) == interval:
                        values[peer] = arrived[peer][at:at + end - begin]
                    at += end - begin
            ordered = [tensor for _, tensor in sorted(values.items())]
            place = flat[interval[0]:interval[1]].copy_(ordered[0])
            for tensor in ordered[1:]:
                place.add_(tensor)


def _chunks(messages, most):
    """Cuts the intervals of messages into pieces of at most `most` elements; yields the first pieces of all, the second
    ones, and so on. Both devices of a message cut it alike."""
    for number in itertools.count():
        pieces = [(sender, to, (begin + number * most, min(end, begin + (number + 1) * most)))
                  for sender, to, (begin, end) in messages if begin + number * most < end]
        if not pieces:
            return
        yield pieces


class Worker:
    """Runs sums one after the other, in a thread if `is_beside`, otherwise at once."""

    def __init__(self, is_beside):
        self.is_beside, self.queue, self.thread = is_beside, queue.SimpleQueue(), None

    def begin(self, summed, flat):
        job = _Job(summed, flat, self.is_beside)
        if not self.is_beside:
            job.run()
            return job
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, name="ucudnn.parallel", daemon=True)
            self.thread.start()
        self.queue.put(job)
        return job

    def _work(self):
        while (job := self.queue.get()) is not None:
            job.run()

    def close(self):
        if self.thread:
            self.queue.put(None)
            self.thread.join()
            self.thread = None


class _Job:
    """A sum that was begun. `seconds`: how long it took."""

    def __init__(self, summed, flat, is_beside):
        self.summed, self.flat, self.is_beside, self.error, self.done = summed, flat, is_beside, None, threading.Event()
        # The sum runs behind what made `flat`, on the same stream of the device, whichever thread runs it.
        self.stream = torch.cuda.stream(torch.cuda.current_stream(flat.device)) if flat.is_cuda else contextlib.nullcontext()

    def run(self):
        began = time.monotonic()
        try:
            with torch.no_grad(), self.stream:
                self.summed.run(self.flat)
        except BaseException as error:  # raised again where the sum is awaited
            self.error = error
        self.seconds = time.monotonic() - began
        self.done.set()

    def wait(self):
        began = time.monotonic()
        self.done.wait()
        waited = time.monotonic() - began if self.is_beside else self.seconds
        self.summed.transport.counts.time("update", waited, self.seconds - waited)
        if self.error:
            raise self.error
        return self.flat


class Pass:
    """The parameters of one forward pass, by name, as layers read them: `values`, or what sums make of these."""

    def __init__(self, executor, is_recording, values):
        self.executor, self.states, self.values = executor, {}, values
        if not is_recording:
            return
        for summed in executor.sums:
            names = [name for name in summed.names if executor.parameters[name].requires_grad]
            if names:
                state = {"summed": summed, "names": names, "is_synchronous": executor.is_synchronous, "jobs": []}
                state["ended"] = Ended.apply(state, executor, *[values[name] for name in names])
                for name in names:
                    self.states[name] = state

    def use(self, token, names):
        """Returns (token, the parameters of these names)."""
        for name in names:
            state = self.states.get(name)
            if state and "ended" in state:
                token, *values = Begun.apply(token, state, self.executor, *state.pop("ended"))
                self.values.update(zip(state["names"], values))
        return token, [self.values[name] for name in names]


class Ended(torch.autograd.Function):
    @staticmethod
    def forward(ctx, state, executor, *parameters):
        ctx.state = state
        ctx.set_materialize_grads(False)
        return tuple(parameter.view_as(parameter) for parameter in parameters)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *_):
        job, shapes = ctx.state["jobs"].pop(0)
        if job is None:
            return None, None, *shapes
        flat, at, gradients = job.wait(), 0, []
        for shape, dtype in shapes:
            gradients.append(flat[at:at + shape.numel()].view(shape).to(dtype).clone())
            at += shape.numel()
        return None, None, *gradients


class Begun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, token, state, executor, *parameters):
        ctx.state, ctx.executor = state, executor
        ctx.likes = [(parameter.shape, parameter.dtype, parameter.device) for parameter in parameters]
        ctx.set_materialize_grads(False)
        return token.clone(), *[parameter.view_as(parameter) for parameter in parameters]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, token, *gradients):
        state, executor = ctx.state, ctx.executor
        gradients = [torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient
                     for gradient, (shape, dtype, device) in zip(gradients, ctx.likes)]
        tokens = [torch.zeros((), dtype=dtype, device=device).expand(shape) for shape, dtype, device in ctx.likes]
        kept = [executor.kept(name) for name in state["names"]]
        gradients = [gradient if old is None else gradient + old for gradient, old in zip(gradients, kept)]
        if state["is_synchronous"]:
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            executor.ledger.add("sums", flat)
            job = executor.worker.begin(state["summed"], flat)
            state["jobs"].append((job, [(shape, dtype) for shape, dtype, _ in ctx.likes]))
        else:  # the next synchronous pass adds them
            executor.keep(dict(zip(state["names"], gradients)))
            state["jobs"].append((None, [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.likes]))
        return token, None, None, *tokens
