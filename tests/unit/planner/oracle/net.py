"""Builds an ONNX net node by node and evaluates it at two batches as it grows, so that its shapes and numbers are known
while it is built. It counts its own parameters and knows nothing of ucudnn."""

import collections
import functools

import numpy
from onnx import helper, numpy_helper

import reference
from steps import Unfit

BATCHES = (2, 4)  # at which every net is evaluated
LARGEST = 1e4     # larger numbers, and those that are not finite, make a node unfit

# For each operator, the positions of inputs whose numbers are read but not trained.
NOT_TRAINED = {"BatchNormalization": (3, 4), "Resize": (1, 2), "Upsample": (1,), "QuantizeLinear": (1, 2),
               "DequantizeLinear": (1, 2), "Dropout": (1,), "Clip": (1, 2)}
# Operators whose output has the numbers of the input, in the same order or permuted.
VIEWS = ("Transpose", "Reshape", "Cast", "Identity", "Squeeze", "Unsqueeze")
# Operators whose output has numbers of the first input. A number may occur several times.
PICKS = ("Expand", "Gather", "GatherND", "Pad", "Slice", "Split", "Tile")
# Operators whose outputs do not depend on the numbers of an image, but may depend on its shape.
SHAPE_READERS = ("Shape", "Size", "RandomNormalLike", "ConstantOfShape", "RandomNormal")


# The place of the batch in a tensor: the extent of `axis` is outer * batch * inner, row-major. `splits` says whether a
# Reshape may split the axis.
Batch = collections.namedtuple("Batch", "axis outer inner splits")


class Tensor:
    """A tensor of the file. `at` has its numbers at BATCHES. `root` is the tensor whose numbers a constant has, or None.
    `is_weight` says that some of its numbers were trained. `numbers` says how many elements of a constant are not copies of
    others."""

    def __init__(self, name, at, root=None, batch=None, is_weight=False, numbers=None):
        self.name, self.at, self.root, self.batch, self.is_weight = name, at, root, batch, is_weight
        self.numbers = at[0].size if numbers is None else numbers

    @property
    def is_constant(self):
        return self.root is not None

    @property
    def is_float(self):
        return self.at[0].dtype == numpy.float32

    @property
    def rank(self):
        return self.at[0].ndim

    def extent(self, axis):
        """Returns the extent of an axis; for the batch's axis, its extent for one image."""
        return self.at[0].shape[axis] // (BATCHES[0] if self.batch and self.batch.axis == axis % self.rank else 1)

    def extents(self):
        return [self.extent(axis) for axis in range(self.rank)]


class Net:
    """A net of an opset. `batch` is the file's batch, or None if the file has a symbol for it. Every method that adds a node
    returns the name of its output (a list of names if `outputs` is given), or raises Unfit and leaves the net as it was."""

    def __init__(self, opset, batch, rng):
        self.opset, self.batch, self.rng = opset, batch, rng
        self.tensors, self.nodes, self.inputs, self.initializers, self.listed_inputs = {}, [], [], [], []
        self.order = []  # computed tensors in the order in which they were added
        self.features = set()
        self.counter = 0
        self.evaluators = {}

    def __getitem__(self, name):
        return self.tensors[name]

    def mark(self):
        return (len(self.nodes), len(self.inputs), len(self.initializers), len(self.listed_inputs), len(self.order),
                set(self.tensors), set(self.features))

    def rollback(self, mark):
        for part, length in zip((self.nodes, self.inputs, self.initializers, self.listed_inputs, self.order), mark):
            del part[length:]
        self.tensors = {n: t for n, t in self.tensors.items() if n in mark[5]}
        self.features = mark[6]

    def fresh(self, kind):
        self.counter += 1
        return self.rng.choice([f"{kind}_{self.counter}", f"/{kind}/{kind}_{self.counter}_output_0", f"{self.counter}"])

    def data(self, extents, like=0.0):
        """Adds a graph input of the batch and these extents."""
        name = self.fresh("input")
        at = [(self._numbers((batch, *extents)) + like).astype(numpy.float32) for batch in BATCHES]
        self.tensors[name] = Tensor(name, at, batch=Batch(0, 1, 1, True))
        self.inputs.append(name)
        self.order.append(name)
        return name

    def _numbers(self, shape):
        source = numpy.random.default_rng(self.rng.getrandbits(32))
        return source.standard_normal(shape, numpy.float32)

    def weight(self, *shape, positive=False):
        """Adds a trained constant: random numbers, none of them 0 or 1."""
        values = self._numbers(shape) / numpy.float32(max(1, numpy.prod(shape[1:])) ** 0.5)
        values = numpy.abs(values) + numpy.float32(0.5) if positive else values
        return self.constant(values, is_weight=True)

    def constant(self, values, is_weight=False, at_batches=None):
        """Adds a constant in one of the ways in which a file can hold it. `at_batches` has its values at BATCHES and in the
        file, if these differ."""
        values = numpy.asarray(values)
        if values.dtype == numpy.float64:
            values = values.astype(numpy.float32)
        elif values.dtype.kind == "i" and values.dtype != numpy.int8:
            values = values.astype(numpy.int64)
        name = self.fresh("constant")
        in_file = at_batches[-1] if at_batches else values
        tensor = Tensor(name, list(at_batches[:2]) if at_batches else [values, values], root=name, is_weight=is_weight)
        self.tensors[name] = tensor
        way = self.rng.random()
        if way < 0.62:
            self.initializers.append(numpy_helper.from_array(in_file, name))
            if way < 0.08:
                self.listed_inputs.append(name)
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], name=self.rng.choice(["", "n_" + name]),
                                               **self._constant_attribute(in_file, way)))
        return name

    def _constant_attribute(self, values, way):
        is_float = values.dtype == numpy.float32
        if self.opset >= 12 and way > 0.8 and values.ndim <= 1 and values.size and (is_float or values.dtype == numpy.int64):
            kind = ("value_float" if is_float else "value_int") + "s" * values.ndim
            return {kind: values.tolist()}
        if self.opset >= 11 and way > 0.95 and is_float and values.ndim and values.size > 1:
            flat = values.reshape(-1)
            places = numpy.flatnonzero(flat)
            sparse = helper.make_sparse_tensor(
                numpy_helper.from_array(flat[places], "values"),
                numpy_helper.from_array(places.astype(numpy.int64), "places"), list(values.shape))
            self.features.add("Constant.sparse_value")
            return {"sparse_value": sparse}
        return {"value": numpy_helper.from_array(values)}

    def integers(self, *values):
        return self.constant(numpy.array(values, numpy.int64))

    def sizes(self, dims):
        """Adds an int64 constant of `dims`, each a number or a Tensor's axis as (name, axis). Raises Unfit if one of these axes
        has the batch and the file's batch is a symbol."""
        rows = []
        for batch in (*BATCHES, self.batch):
            rows.append([])
            for dim in dims:
                name, axis = dim if isinstance(dim, tuple) else (None, None)
                has_batch = name and self[name].batch and self[name].batch.axis == axis % self[name].rank
                if has_batch and batch is None:
                    raise Unfit
                size = self[name].extent(axis) if name else dim
                rows[-1].append(size * batch if has_batch else size)
        rows = [numpy.array(row, numpy.int64) for row in rows]
        return self.constant(rows[0], at_batches=rows)

    def add(self, op, inputs, outputs=None, feature=None, **attributes):
        names = [self.fresh(op) for _ in range(outputs or 1)]
        node = helper.make_node(op, inputs, names, name=self.rng.choice(["", f"node_{len(self.nodes)}", names[0]]),
                                **{k: v for k, v in attributes.items() if v is not None})
        reads = reference.reads_of(node)
        try:
            run = reference.evaluator(node, self.opset)
            results = [run(*[self[n].at[i] if n else None for n in reads]) for i in range(len(BATCHES))]
        except (ValueError, IndexError, RuntimeError, TypeError, ZeroDivisionError, AssertionError) as error:
            raise Unfit(f"{op} {[self[n].at[0].shape for n in reads if n]} {attributes}: {error!r}") from error
        given = [self[n] for n in reads if n]
        made = []
        for position, name in enumerate(names):
            at = [numpy.asarray(result[position]) for result in results]
            self._check(at)
            made.append(Tensor(name, at, *self._kind(op, name, given, at)))
        self.evaluators[names[0]] = run
        self.tensors.update({t.name: t for t in made})
        self.order += [t.name for t in made if not t.is_constant]
        self.nodes.append(node)
        self.features.add(op)
        if feature:
            self.features.add(feature)
        return names if outputs else names[0]

    @staticmethod
    def _check(at):
        for values in at:
            if values.size == 0 or values.size > 40000 or values.ndim > 6:
                raise Unfit
            if values.dtype.kind == "f" and not (numpy.abs(values) < LARGEST).all():
                raise Unfit

    def _kind(self, op, name, given, at):
        """Returns (root, batch, is_weight, numbers) of an output."""
        if all(t.is_constant for t in given):
            root = given[0].root if op in VIEWS else name
            numbers = sum(t.numbers for t in given) if op == "Concat" else at[0].size
            numbers = min(given[0].numbers, numbers) if op in (*VIEWS, *PICKS) else numbers
            return root, None, any(t.is_weight for t in given), numbers
        axes = [a for a, (x, y) in enumerate(zip(at[0].shape, at[1].shape)) if x != y]
        if len(axes) != 1 or at[0].shape[axes[0]] * BATCHES[1] != at[1].shape[axes[0]] * BATCHES[0]:
            return None, None, False, None
        size = at[0].shape[axes[0]] // BATCHES[0]
        for source in (t.batch for t in given if t.batch):
            if source.outer * source.inner == size and op != "Reshape":
                return None, Batch(axes[0], source.outer, source.inner, source.splits), False, None
        return None, Batch(axes[0], size, 1, False), False, None

    def drop_unread(self):
        """Removes the constants that nothing reads. Steps that raised Unfit may have left some."""
        read = {n for node in self.nodes for n in reference.reads_of(node)}
        self.nodes = [n for n in self.nodes if n.op_type != "Constant" or n.output[0] in read]
        self.initializers = [i for i in self.initializers if i.name in read]
        self.listed_inputs = [n for n in self.listed_inputs if n in read]

    # ---- Counting parameters.

    @functools.cached_property
    def producers(self):
        return {name: node for node in self.nodes for name in node.output if node.op_type != "Constant"}

    @functools.cached_property
    def depending(self):
        """Returns the tensors whose numbers depend on the inputs' numbers; others depend on shapes and constants alone."""
        found = set(self.inputs)
        for node in self.nodes:
            if node.op_type not in SHAPE_READERS and found.intersection(reference.reads_of(node)):
                found.update(node.output)
        return found

    def parameters(self, outputs):
        """Returns by name how many trained numbers each tensor has, for all tensors on which the numbers of `outputs`
        depend. A constant counts only if it has more than one number and a node reads it in addition to the node's
        data. A constant computed from other constants counts in their place, with its own shape and without copies of
        one number."""
        counted, seen, waiting = {}, set(), [name for name in outputs if name in self.depending]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.producers:
                continue
            seen.add(name)
            node = self.producers[name]
            if node.op_type in SHAPE_READERS:
                continue
            for position, read in enumerate(reference.reads_of(node)):
                if not read or position in NOT_TRAINED.get(node.op_type, ()):
                    continue
                tensor = self[read]
                if not tensor.is_constant:
                    waiting.append(read)
                elif tensor.is_float and tensor.is_weight and self[tensor.root].numbers > 1:
                    counted[tensor.root] = self[tensor.root].numbers
        return counted

    # ---- Writing the file.

    def _info(self, name, with_shape=True):
        tensor = self[name]
        kind = helper.np_dtype_to_tensor_dtype(tensor.at[0].dtype)
        if not tensor.is_constant and not with_shape:
            return helper.make_tensor_value_info(name, kind, [f"axis_{i}" for i in range(tensor.rank)])
        shape = list(tensor.at[0].shape)
        if tensor.batch:
            part = shape[tensor.batch.axis] // BATCHES[0]
            shape[tensor.batch.axis] = part * self.batch if self.batch else "N" if part == 1 else f"N_{part}"
        return helper.make_tensor_value_info(name, kind, shape)

    def model(self, outputs, with_shapes, with_all_shapes=False):
        """Returns the file. `with_shapes` says whether it states the shapes of its outputs, and `with_all_shapes` whether it
        states the shapes of all tensors."""
        inputs = [self._info(n) for n in [*self.inputs, *self.listed_inputs]]
        inside = [n for n in self.order if n not in self.inputs and n not in outputs] if with_all_shapes else []
        graph = helper.make_graph(self.nodes, "random", inputs, [self._info(n, with_shapes) for n in outputs],
                                  self.initializers, value_info=[self._info(n) for n in inside])
        # Version 3 of the format demands that initialisers are inputs, too; later versions such as 8 do not.
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
