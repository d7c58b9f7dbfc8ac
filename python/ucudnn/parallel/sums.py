"""Sums of gradients over the devices that share parameters. Sums need not keep the order of exchanges: a worker thread
runs them one after the other in a separate process group, while backward continues. Gradients are summed in bundles.
All devices of a sum get the same bits.

Two autograd functions stand between a parameter and its uses. When the pass begins, all parameters of a sum go through
Ended, so torch runs Ended's backward last. At the first use of one of them, all go through Begun. Begun's backward runs
as soon as the gradients of these parameters exist, and starts the sum. Ended's backward waits for the sum. Hooks on a
parameter's gradient run after Ended's backward, so they see the sum."""
import contextlib
import functools
import itertools
import queue
import threading
import time

import torch

from .schedule import phases_of

CHUNK_BYTES = 25 * 2**20  # limit for one message, so that the copies packed for sending stay small


class Summed:
    def __init__(self, schedule, one, transport):
        self.id, self.devices, self.transport = one.id, one.devices, transport
        self.names, self.elements, self.phases = (), 0, ()  # names: parameters of the model
        self.schedule, self.rank = schedule, transport.rank

    def _plan(self, elements):
        if elements != self.elements:  # at the first call, or if other parameters are trained now
            self.elements = elements
            self.phases = [[message for message in phase if self.rank in message[:2]]
                           for phase in phases_of(self.schedule, self.devices, elements)]

    def run(self, flat):
        """Sums the vector `flat` over the devices, in place."""
        self._plan(flat.numel())
        phases = [(phase, True) for phase in self.phases]
        phases += [([(to, sender, interval) for sender, to, interval in phase], False) for phase in reversed(self.phases)]
        for number, (phase, adds) in enumerate(phases):
            for chunk in _chunks(phase, CHUNK_BYTES // flat.element_size()):
                self._phase(flat, chunk, f"sum {self.id}, phase {number + 1}", adds)

    def _phase(self, flat, messages, what, adds):
        """Runs one phase. All intervals that one device sends to another are concatenated into one message."""
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
    """Cuts the intervals of messages into pieces of at most `most` elements. Yields the first pieces of all messages,
    then the second pieces, and so on. Sender and receiver cut a message alike."""
    for number in itertools.count():
        pieces = [(sender, to, (begin + number * most, min(end, begin + (number + 1) * most)))
                  for sender, to, (begin, end) in messages if begin + number * most < end]
        if not pieces:
            return
        yield pieces


class Worker:
    """Runs sums one after the other: in a thread of its own if `is_beside`, otherwise within begin()."""

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


@functools.cache
def _stream_of(device):
    return torch.cuda.Stream(device)


class _Job:
    """A sum in progress. `seconds`: how long it took. On a GPU it runs on a stream of its own: `computed` is the event
    after which `flat` may be read, and `summed_up` the event after which `flat` is the sum."""

    def __init__(self, summed, flat, is_beside):
        self.summed, self.flat, self.is_beside, self.error, self.done = summed, flat, is_beside, None, threading.Event()
        self.stream = self.summed_up = None
        if flat.is_cuda:
            self.stream, self.computed = _stream_of(flat.device), torch.cuda.current_stream(flat.device).record_event()
            flat.record_stream(self.stream)

    def run(self):
        began = time.monotonic()
        try:
            with torch.no_grad(), torch.cuda.stream(self.stream) if self.stream else contextlib.nullcontext():
                if self.stream:
                    self.stream.wait_event(self.computed)
                self.summed.run(self.flat)
                self.summed_up = self.stream and self.stream.record_event()
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
        if self.summed_up:
            torch.cuda.current_stream(self.flat.device).wait_event(self.summed_up)
        return self.flat


class Pass:
    """The parameters of one forward pass, by name, as layers read them. `values` are plain tensors, replaced by the
    outputs of Ended and Begun for parameters that are summed."""

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
        """Returns (token, list of the parameters with these names)."""
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
        else:  # no_sync: the next synchronous pass adds these gradients
            executor.keep(dict(zip(state["names"], gradients)))
            state["jobs"].append((None, [torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.likes]))
        return token, None, None, *tokens
