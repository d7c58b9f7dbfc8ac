"""Before a batch's forward pass, ranks agree here on its size, images, labels and loss functions, and later on the
labels given to whole_labels."""
import math

import torch

from . import boxes as b
from .agreement import digest
from .errors import NotSupported
from .losses import Mean, Sum, kind_of, misfit, reference_numbers


def agreed_size(executor, model, images, labels):
    """Returns the number of images of the batch. A sampler may give batches of two sizes. Returns the size to which the
    tensors of all ranks fit. If they fit both sizes, the result is usually the larger one. It is the smaller one only
    if no sampler has given this batch, and all ranks have the same images and labels. If the tensors of one rank fit
    neither size, all ranks refuse them."""
    sizes, fits, facts, told, refusal = sorted(executor.sizes), 0, {}, "", None
    has_sampled, executor.has_sampled = executor.has_sampled, False
    try:
        executor.read_model(model)
        if labels is not None and executor.transport.world > 1 and torch.is_grad_enabled():
            for what, tensor in (("images", images), ("labels", labels)):
                if getattr(tensor, "requires_grad", False):
                    raise NotSupported(f"{what} that require gradients, of which each rank would have its own part: "
                                       f"{what}.detach() is expected, and layers before the model belong into it")
        if labels is not None and executor.losses is None:
            raise NotSupported("labels, and no loss: parallel.apply(model, plan, loss=...) is told one")
        _check_types(executor, images, labels)
        misfits = [_misfit(executor, size, images, labels) for size in sizes]
        if None not in misfits:
            raise NotSupported("; or ".join(misfits))
        fits = sum(1 << place for place, misfit in enumerate(misfits) if misfit is None)
        facts, told = {} if executor.agreement.is_alone else _facts(executor, labels), f"{len(images)} images"
    except Exception as error:  # the other ranks must hear of any error
        refusal = error
    fits = executor.agreement.bring("the batch of model(...)", fits, told, facts, refusal)
    executor.shared_values.compare()
    # both sizes fit: either all ranks have the whole smaller batch, or each has its rows of the larger one
    if fits & (fits - 1):
        has_rows = executor.rows(sizes[-1]) is not None and not has_sampled
        digests = [digest(tensor) if has_rows else None for tensor in (images, labels) if tensor is not None]
        is_whole = all(executor.agreement.are_equal("whole batches", [*digests, executor.rank + 1 if has_sampled else 0]))
        fits = fits & -fits if is_whole else fits
    return sizes[fits.bit_length() - 1]


def agree_on_data(executor, plan, images, labels):
    """Raises NotSupported if images that several ranks load, or labels of such images, differ between these ranks."""
    told = [(what, tensor, shared) for what, tensor in (("images", images), ("labels of images", labels)) if tensor is not None
            for shared in plan.shared]
    if not told or executor.agreement.is_alone:
        return
    digests = [digest(executor.own_rows(plan, tensor)[begin - plan.rows[0]:end - plan.rows[0]])
               if executor.rank in plan.shared[begin, end] else None for _, tensor, (begin, end) in told]
    for (what, _, (begin, end)), is_equal in zip(told, executor.agreement.are_equal("shared images", digests)):
        if not is_equal:
            raise NotSupported(
                f"{what} {begin} to {end} of the batch differ between the ranks {plan.shared[begin, end]}, which all load them: "
                "the same are expected (random augmentation is seeded by the image's number and the epoch on each rank)")


def agree_on_losses(executor, plan, labels, like):
    """Compares the program's own loss functions between ranks, once for each type and shape of labels. Every rank
    computes the loss of the same reference: random outputs of type `like`, and some labels of this batch. Raises
    NotSupported if the results differ. Keeps the reference in each Mean."""
    functions = [(output, loss) for output, (loss, _) in zip(executor.network.outputs, executor.losses) if isinstance(loss, (Mean, Sum))]
    if not functions or kind_of(labels) in executor.referenced or not math.prod(labels.shape[1:]):
        return
    given, source = torch.empty((8 if labels.ndim == 1 else 2, *labels.shape[1:]), dtype=labels.dtype), min(plan.input.boxes)
    if executor.rank == source:
        own = executor.own_rows(plan, labels).detach()
        given.copy_(own[torch.arange(len(given), device=own.device) % len(own)])
    executor.agreement.give("labels of a reference", given, source)
    given, numbers, references = given.to(executor.device), [], []
    for output, loss in functions:
        node = executor.network.by_name[output.node]
        x = torch.rand((len(given), *(node.shape[:output.dims - 1] if output.dims < 3 else node.shape)),
                       generator=torch.Generator().manual_seed(0), dtype=like).to(executor.device)
        numbers.append(reference_numbers(loss, x, given))
        references.append((x, given))
    told = executor.agreement.gather("losses", torch.tensor(numbers, dtype=torch.float64))
    for rank, other in enumerate(told):
        # comparisons with NaN are false, so a function that failed is not refused here
        for place, at in ((told[0] - other).abs() > 1e-4 * told[0].abs() + 1e-6).nonzero().tolist():
            raise NotSupported(
                f"ranks differ in the loss of {functions[place][0].node}: {told[0][place, at]:.6g} on rank 0, "
                f"{other[place, at]:.6g} on rank {rank}, for the same outputs and labels; the same function is expected")
    for (_, loss), reference, (number, _) in zip(functions, references, numbers):
        if isinstance(loss, Mean) and math.isfinite(number):
            loss.references[kind_of(labels)] = reference
    executor.referenced.add(kind_of(labels))


def facts_of_labels(executor, labels):
    """Returns the facts about `labels` and the last pass that must be equal on all ranks. Raises NotSupported if
    `labels` cannot be the labels of that pass."""
    plan, rank = executor.last_plan, executor.rank
    if plan is None:
        raise NotSupported("whole_labels(labels) before a pass: model(images) comes first, and these are its labels")
    if not isinstance(labels, torch.Tensor) or labels.ndim == 0:
        raise NotSupported(f"labels of type {type(labels).__name__} on rank {rank}: one tensor with a label for each image is expected")
    rows, batch = plan.rows, plan.schedule.batch
    if rows is not None and len(labels) not in (rows[1] - rows[0], batch):
        raise NotSupported(f"{len(labels)} labels on rank {rank}: {rows[1] - rows[0]} are expected, which are {rows[0]} to {rows[1]} of the "
                           f"last pass's batch of {batch}, or all of these")
    return {"labels": f"{labels.dtype} of shape {tuple(labels.shape[1:])} for each image",
            "the batch that the sampler gave last": executor.sampled, "images of the last pass": batch}


def _facts(executor, labels):
    """Returns the facts that decide which messages a pass sends, and the types of these messages."""
    return {"sizes of batches": sorted(executor.sizes), "the batch that the sampler gave last": executor.sampled,
            "labels": None if labels is None else f"{labels.dtype} of shape {tuple(labels.shape[1:])} for each image",
            "no_sync": not executor.is_synchronous, "recorded gradients": torch.is_grad_enabled(),
            "autocast": str(executor.autocast()),
            "types of parameters": sorted({str(one.dtype) for one in executor.parameters.values()}),
            "parameters that are not trained": [name for name, one in executor.parameters.items() if not one.requires_grad],
            "modules in evaluation": [name for name, module in executor.modules.items() if not module.training],
            **executor.shared_values.settings()}


def _misfit(executor, batch, images, labels):
    """Returns why this rank's images or labels cannot belong to a batch of `batch` images, or None if they can."""
    rows, shape = executor.rows(batch), executor.network.nodes[0].shape
    if rows is None:
        return None
    begin, end = rows
    for what, tensor in (("images", images), ("labels", labels)):
        if tensor is not None and len(tensor) not in (end - begin, batch):
            return (f"{len(tensor)} {what} on rank {executor.rank}: {end - begin} are expected, which are {begin} to {end} of "
                    f"a batch of {batch}, or all of these")
    expected = shape if images.ndim > 2 else shape[:1]
    if tuple(images.shape[1:]) != tuple(expected):
        return f"images of shape {tuple(images.shape[1:])} on rank {executor.rank}: {tuple(expected)} is expected"
    if labels is not None and not labels.is_meta and (executor.transport.world > 1 or executor.schedule.passes):
        for output, (loss, _) in zip(executor.network.outputs, executor.losses):
            node = executor.schedule.nodes[output.node]
            is_divided = any(box[b.C] != (0, node.shape[0]) for box in node.boxes.values())
            if why := misfit(loss, node.shape[:output.dims - 1] if output.dims < 3 else node.shape, labels, is_divided):
                return f"{why[0]} on rank {executor.rank}, for the output {output.node}: {why[1]}"
    return None


def _check_types(executor, images, labels):
    """Raises NotSupported for images or labels that are no tensor. Also refuses images of another type than the
    parameters, if layers would then compute in other types."""
    for what, one in (("images", images), ("labels", labels)):
        if not isinstance(one, torch.Tensor) and (what == "images" or one is not None):
            raise NotSupported(f"{what} of type {type(one).__name__} on rank {executor.rank}: one tensor is expected"
                               f"{', for all outputs' if what == 'labels' else ''}")
    types, own, like = {one.dtype for one in executor.parameters.values()}, images.dtype, executor.floating(images)
    if own == like or all(executor.rows(size) is None for size in executor.sizes):
        return
    right = ' or '.join(sorted(map(str, types)))
    if images.is_floating_point() and own not in types and executor.autocast() is None:
        raise NotSupported(f"images of {own} on rank {executor.rank}: {right} is expected")
    data = executor.network.nodes[0].name
    try:
        if executor.types(own) | {data: like} == executor.types(like) | {data: like}:
            return
        why = f"layers then compute in other types than from {like}"
    except Exception as error:
        why = str(error).splitlines()[0]
    raise NotSupported(f"images of {own} on rank {executor.rank}: {right} is expected ({why})")
