"""Converts a model to a Network: most operators of torch.export's graph become a node each, named by their module's
path. Nodes have the axes n, c, (d,) h, w, so a permutation, for example, only changes a Ref's layout."""
import contextlib
import io
import itertools
import logging
import math
import sys
from dataclasses import dataclass

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .comparing import compare
from .errors import NotSupported
from .losses import named, of_outputs
from .network import LOSSES, Network, Node, Output, Parameter

BATCH = 7  # images of the example input; constants of a program rarely have this value

ACTIVATIONS = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "relu6": "relu6", "leaky_relu": "leaky_relu", "elu": "elu",
               "gelu": "gelu", "silu": "swish", "hardsigmoid": "hard_sigmoid", "hardswish": "hard_swish"}
OTHER_ACTIVATIONS = ("hardtanh", "softplus", "mish", "selu", "celu", "exp", "abs", "neg", "square", "log_sigmoid", "softsign",
                     "clamp", "clamp_min", "clamp_max", "hardshrink", "softshrink", "sqrt", "rsqrt", "log", "sin", "cos",
                     "reciprocal")
# Members of an opaque operator that computes each position only from the same position of its input.
SEPARATE_POSITIONS = {"rows": True, "columns": True}
# Arguments that do not change the numbers of a result.
IGNORED = {"cudnn_enable", "cudnn_enabled", "memory_format", "non_blocking"}


@dataclass(frozen=True)
class Ref:
    """A tensor of the program: the output of `node`. `layout` is the order of its dimensions, as letters of n, c, d, h,
    w (axes of extent 1 may be missing). Tensors with the same `storage` share memory."""
    node: str
    layout: str
    storage: int


@dataclass(frozen=True)
class Named:
    kind: str  # "parameter", "buffer" or "constant"
    name: str
    shape: tuple = None  # if this is a view of a vector: its shape, in which one extent is more than 1; otherwise None


@dataclass(frozen=True)
class Mask:
    """One random number for each image, zero with probability `rate` (-1: not drawn yet). `scaled`: divided by 1 -
    rate."""
    rate: float
    scaled: bool = False


class Arguments(dict):
    """An operator's arguments by name. `unread` has the names of the arguments that no rule has read."""

    def __init__(self, found):
        super().__init__(found)
        self.unread = set(found)

    def __getitem__(self, name):
        self.unread.discard(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def items(self):
        self.unread.clear()
        return super().items()


def describe(model, input_shape, name=None, loss=None):
    """Returns the Network of `model`, a module that takes one tensor of images. `input_shape` is one image's shape:
    (channels, (d,) h, w) or (features,). `loss` is as in `apply`; a cross-entropy or logistic loss becomes a node.
    Raises NotSupported, which names an operator without a rule."""
    for path, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.momentum is None and module.track_running_stats:
            raise NotSupported(f"{path}: {type(module).__name__}(momentum=None), whose mean of all batches cannot be exported; a "
                               "number is expected, as momentum=0.1")
    parameter = next(iter(model.parameters()), torch.empty(0))
    dtype = parameter.dtype if parameter.dtype.is_floating_point else torch.get_default_dtype()
    example = torch.empty(BATCH, *input_shape, dtype=dtype, device=parameter.device)
    network, evaluated = [_traced(model, example, name or type(model).__name__, is_training) for is_training in (True, False)]
    network.evaluated = _outputs_in_evaluation(network, evaluated)
    compare(model, network, example.shape[1:])
    losses = [] if loss is None else of_outputs(loss, len(network.outputs))
    return network.add_losses([LOSSES.get(named(one)) for one, _ in losses])


def _traced(model, example, name, is_training):
    with in_mode(model, is_training):
        return Tracer(model, _exported(model, example, is_training), tuple(example.shape[1:])).network(name, is_training)


@contextlib.contextmanager
def in_mode(model, is_training):
    modes = {module: module.training for module in model.modules()}
    try:
        yield model.train(is_training)
    finally:
        for module, training in modes.items():
            module.training = training


def _exported(model, example, is_training):
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    was_disabled, log.disabled, told = log.disabled, True, io.StringIO()
    try:
        with contextlib.redirect_stderr(told):  # torch prints whole graphs of a model that it cannot export
            program = torch.export.export(model, (example,))
        sys.stderr.write(told.getvalue())
        return program
    except Exception as error:  # torch raises many types of errors here
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if type(error).__name__ == "GuardOnDataDependentSymNode":
            first = "its program depends on numbers in tensors, as by item(), float() or if; the same operators for all are expected"
        raise NotSupported(f"{type(model).__name__} cannot be exported in {'training' if is_training else 'evaluation'}: "
                           f"{first.strip()}") from error
    finally:
        log.disabled = was_disabled


def _outputs_in_evaluation(network, evaluated):
    """Returns `evaluated` of the Network. Raises NotSupported if evaluation computes something that training does not,
    because one Network describes both modes."""
    numbers = {}  # {what a node computes from the network's input, without dropout: number}

    def numbered(nodes):
        found = {}
        for node in nodes:
            inputs = tuple(found[source] for source in node.inputs)
            what = (node.op, node.shape, node.parameters, repr(node.members), repr(node.call), inputs)
            found[node.name] = inputs[0] if node.op == "dropout" else numbers.setdefault(what, len(numbers))
        return found
    trained = numbered(network.nodes)
    count, found = len(numbers), numbered(evaluated.nodes)
    outputs = [trained[output.node] for output in network.outputs]
    for node in evaluated.nodes:
        if found[node.name] >= count:
            raise NotSupported(f"{node.name}: {node.op} is computed so in evaluation alone; a plan runs one network in training "
                               "and in evaluation, which may differ by dropout and by outputs that are left out")
    if missing := [output.node for output in evaluated.outputs if found[output.node] not in outputs]:
        raise NotSupported(f"{missing[0]}: an output in evaluation alone")
    return [outputs.index(found[output.node]) for output in evaluated.outputs], evaluated.structure


class Tracer:
    def __init__(self, model, program, input_shape):
        self.model, self.program, self.input_shape = model, program, input_shape
        self.nodes, self.by_name, self.env, self.storages = [], {}, {}, itertools.count()
        self.parameters = {}
        self.fx = None  # the current node of torch's graph

    def network(self, name, is_training=True):
        signature = self.program.graph_signature
        by_input = {key: Named("parameter", value) for key, value in signature.inputs_to_parameters.items()}
        by_input |= {key: Named("buffer", value) for key, value in signature.inputs_to_buffers.items()}
        by_input |= {key: Named("constant", value) for key, value in signature.inputs_to_lifted_tensor_constants.items()}
        inputs = [key for key in signature.user_inputs]
        if len(inputs) != 1:
            raise NotSupported(f"a model that is called with {len(inputs)} tensors: one of images is expected")
        graph = self.program.graph_module.graph
        self.position = {node: place for place, node in enumerate(graph.nodes)}
        for self.fx in graph.nodes:
            if self.fx.op == "placeholder":
                self.env[self.fx] = by_input.get(self.fx.name) or self.input(self.fx.name)
            elif self.fx.op == "call_function":
                self.env[self.fx] = self.call()
            elif self.fx.op == "output":
                outputs = [self.output(self.env.get(value, value) if isinstance(value, torch.fx.Node) else value, spec)
                           for value, spec in zip(self.fx.args[0], signature.output_specs)]
            elif self.fx.op != "get_attr":
                self.refuse(f"{self.fx.op} {self.fx.target}")
        outputs = [output for output in outputs if output]
        names = [key for key, _ in self.model.named_parameters(remove_duplicate=False)]
        if is_training and (unread := [key for key in names if key not in self.parameters]):
            tied = [key for key in unread if any(self.model.get_parameter(key) is self.model.get_parameter(other)
                                                 for other in self.parameters)]
            raise NotSupported(f"parameters that {'another name has, too' if tied else 'no layer reads'}: {', '.join(tied or unread)}")
        order = [key for key, _ in (*self.model.named_parameters(), *self.model.named_buffers())]
        parameters = {key: self.parameters[key] for key in order if key in self.parameters}
        for node in self.nodes:
            if both := parameters.keys() & set(node.call.get("statistics", ())):
                raise NotSupported(f"{node.name}: its statistics {', '.join(sorted(both))} scale or shift another layer, too")
        return Network(name, self.nodes, parameters, outputs, self.program.call_spec.out_spec)

    def is_training(self):
        """Returns whether the current operator's module is in training mode; when a plan runs, its layers read the same
        flag."""
        return self.model.get_submodule(self.path()).training

    def refuse_mode(self, operator, given):
        self.refuse(f"torch.ops.aten.{operator}: training={given} in a module whose `training` is {not given}; "
                    "training=self.training is expected")

    # ---- Nodes of the Network

    def path(self):
        stack = self.fx.meta.get("nn_module_stack") or {}
        path = list(stack.values())[-1][0].split("@")[0] if stack else ""
        return path

    def add(self, op, inputs, shape, members=None, kind=None, layout=None, parameters=(), storage=None, **call):
        """Adds a node. Its name is the path of its module. If the module has submodules, `kind` or else `op` is
        appended."""
        path = self.path()
        module = self.model.get_submodule(path)
        name = path
        if not path or any(True for _ in module.children()):
            name = ".".join(filter(None, (path, kind or op)))
        unique, again = name, 0
        while unique in self.by_name:
            again += 1
            unique = f"{name}@{again}"
        has_shift = op == "scale" and not (members or {}).get("scale", True)
        node = Node(unique, op, tuple(ref.node for ref in inputs), members or {}, tuple(int(extent) for extent in shape),
                    tuple(parameters), has_shift, path, call)
        for key in parameters:
            value = self.tensor(key)
            self.parameters[key] = Parameter(tuple(value.shape), value.requires_grad)
        self.nodes.append(node)
        self.by_name[unique] = node
        return Ref(unique, layout or inputs[0].layout, next(self.storages) if storage is None else storage)

    def input(self, name):
        channels, *extents = self.input_shape
        if len(extents) not in (0, 2, 3):
            raise NotSupported(
                f"images of shape {self.input_shape}: channels and 2 or 3 extents are expected, or features alone")
        extents = extents or [1, 1]
        node = Node(name, "input", (), {"channels": channels, "extents": list(extents)}, (channels, *extents))
        self.nodes.append(node)
        self.by_name[name] = node
        layout = {1: "nc", 3: "nchw", 4: "ncdhw"}[len(self.input_shape)]
        return Ref(name, layout, next(self.storages))

    def output(self, value, spec):
        if spec.kind != torch.export.graph_signature.OutputKind.USER_OUTPUT:
            return None  # a buffer that the program writes; the module also writes it when the plan runs
        if not isinstance(value, Ref) or value.layout not in ("n", "nc", "nchw", "ncdhw"):
            raise NotSupported(
                f"an output that is {value}: outputs are those of layers, their images first and channels second")
        return Output(value.node, len(value.layout))

    def shape_of(self, ref):
        return self.by_name[ref.node].shape

    def extent(self, ref, axis):
        shape = self.shape_of(ref)
        axes = "ncdhw" if len(shape) == 4 else "nchw"
        return BATCH if axis == "n" else shape[axes.index(axis) - 1] if axis in axes else 1

    def refuse(self, what):
        where, target = self.path() or type(self.model).__name__, f"torch.ops.{self.fx.target}"
        is_named = "torch." in what or not isinstance(self.fx.target, torch._ops.OpOverload)
        raise NotSupported(f"{where}: {what}" if is_named else f"{where}: {target}: {what}")

    # ---- Calls of operators, and their rules

    def arguments(self):
        """Returns the operator's arguments by the names in its schema, with defaults filled in. Tensors are replaced by
        values of this trace."""
        found = {}
        schema = self.fx.target._schema.arguments
        for place, argument in enumerate(schema):
            value = self.fx.args[place] if place < len(self.fx.args) else self.fx.kwargs.get(
                argument.name, argument.default_value)
            found[argument.name] = torch.fx.node.map_arg(value, lambda node: self.env.get(node, node))
        return Arguments(found)

    def refuse_unread(self, operator, a):
        """Raises NotSupported if an argument that no rule has read differs from its default."""
        for argument in self.fx.target._schema.arguments:
            # If the schema has no default, None, False, 0 and [] are accepted as unset values.
            if argument.name in a.unread - IGNORED and (a[argument.name] or None) != (argument.default_value or None):
                self.refuse(f"torch.ops.aten.{operator}: {argument.name}={a[argument.name]!r} has no rule; "
                            f"{argument.default_value!r} is expected")

    def call(self):
        target = self.fx.target
        if getattr(target, "__name__", "") == "getitem":
            value = self.env[self.fx.args[0]]
            if isinstance(value, Ref) and self.fx.args[1] == 0:
                return value  # element 0 of a maximum: its values (element 1 has indices)
            if not self.fx.users:
                return None
            self.refuse(f"result {self.fx.args[1]} of {self.fx.args[0].target} is read; a rule has the first one alone")
        if not isinstance(target, torch._ops.OpOverload):
            within = {"wrap_with_set_grad_enabled": "torch.no_grad, where gradients end: requires_grad_(False) of its layers",
                      "wrap_with_autocast": "torch.autocast: one around the call of the model"}.get(str(target))
            self.refuse(f"{within} has a rule" if within else f"{target} is no operator of torch")
        full = target._schema.name.split("::")[1]
        base = full[:-1] if full.endswith("_") and not full.endswith("__") else full
        values = self.arguments()
        if base.startswith("_assert") or base == "sym_constrain_range_for_size":
            return None
        module = self.model.get_submodule(self.path())
        if isinstance(module, torch.nn.LocalResponseNorm):
            return self.lrn(values, module)
        first = next((value for value in values.values() if isinstance(value, (Ref, Named, Mask))), None)
        if base == "cat":
            first = values["tensors"][0]
        rule = getattr(self, f"op_{base}", None) or (self.activation if base in ACTIVATIONS or base in OTHER_ACTIVATIONS or
                                                     self.is_function_of_one_number(base) else None)
        if base not in (full, "detach") and isinstance(first, Named):
            if base == "add" and first.name.rpartition(".")[2] == "num_batches_tracked":
                return first
            self.refuse(f"torch.ops.aten.{full} writes into the {first.kind} {first.name!r}; only counters of batch normalizations "
                        "have a rule")
        if base in ("empty", "new_empty", "rand"):
            return Mask(-1.0)
        if rule is None or first is None:
            self.refuse(f"torch.ops.aten.{full} has no rule; operators with one are those of the table in docs/parallel.md")
        result = rule(base, values)
        self.refuse_unread(full, values)
        if base != full and isinstance(result, Ref):
            result = self.overwritten(values.get("self", values.get("input")), result)
        return result

    def overwritten(self, old, new):
        """Called after an operator that writes into its argument `old`: later reads of `old` get `new`, the result.
        Returns the result."""
        if not isinstance(old, Ref):
            return new
        new = Ref(new.node, new.layout, old.storage)
        for other, value in list(self.env.items()):
            if not isinstance(value, Ref) or value.storage != old.storage:
                continue
            is_read = any(self.position[user] > self.position[self.fx] for user in other.users)
            if value.node == old.node:
                self.env[other] = Ref(new.node, value.layout, old.storage)
            elif is_read:
                self.refuse(f"{self.fx.target} writes into a view of {value.node}, which is read again")
        return new

    def reading(self, value, what="its input"):
        if not isinstance(value, Ref):
            told = f"the {value.kind} {value.name!r}" if isinstance(value, Named) else value
            self.refuse(f"torch.ops.{self.fx.target}: {what} is {told}, which no layer computes; a layer's output is expected")
        return value

    def tensor(self, name):
        path, _, last = name.rpartition(".")
        return getattr(self.model.get_submodule(path), last)

    def parameter(self, value, what):
        if value is None:
            return None
        if not isinstance(value, Named) or value.kind != "parameter":
            self.refuse(f"{what} is computed or is no parameter")
        if value.shape is not None:
            self.refuse(f"{what} is a view of a parameter")
        return value.name

    def standard(self, ref, op):
        ref = self.reading(ref)
        if ref.layout not in ("nchw", "ncdhw"):
            self.refuse(f"{op} of dimensions in the order {ref.layout}: nchw or ncdhw is expected")
        return ref

    def spatial(self, value, ref, neutral=None):
        """Returns a list with one number for each spatial axis."""
        rank = len(self.shape_of(ref)) - 1
        value = [value] if isinstance(value, int) else list(value)
        if not value and neutral is not None:
            return list(neutral)
        return value * rank if len(value) == 1 else value

    def convolved(self, a):
        """Returns (input, shape of the filter, names of the parameters, members) of a convolution or transposed
        convolution."""
        x = self.standard(a["input"], "a convolution")
        weight, bias = self.parameter(a["weight"], "the filter"), self.parameter(a["bias"], "the bias")
        shape = self.model.get_parameter(weight).shape
        members = {"window": list(shape[2:]), "groups": a["groups"], "bias": bias is not None}
        members |= {key: self.spatial(a[key], x) for key in ("stride", "dilation")}
        return x, shape, [name for name in (weight, bias) if name], members

    def op_conv2d(self, base, a):
        x, shape, names, members = self.convolved(a)
        extra = [0] * len(members["window"])
        if isinstance(a["padding"], str):
            totals = [(k - 1) * d if a["padding"] == "same" else 0 for k, d in zip(members["window"], members["dilation"])]
            pad = [total // 2 for total in totals]
            extra = [total - 2 * p for total, p in zip(totals, pad)]
        else:
            pad = self.spatial(a["padding"], x)
        members |= {"filters": shape[0], "pad": pad} | ({"extra_pad": extra} if any(extra) else {})
        rows = zip(self.shape_of(x)[1:], pad, extra, *(members[key] for key in ("window", "dilation", "stride")))
        extents = [(extent + 2 * p + e - (k - 1) * d - 1) // s + 1 for extent, p, e, k, d, s in rows]
        return self.add("convolution", [x], (shape[0], *extents), members, "conv", parameters=names)

    op_conv3d = op_conv2d

    def op_conv_transpose2d(self, base, a):
        x, shape, names, members = self.convolved(a)
        filters, pad, extra = shape[1] * a["groups"], self.spatial(a["padding"], x), self.spatial(a["output_padding"], x)
        members |= {"filters": filters, "pad": pad, "extra_extent": extra}
        rows = zip(self.shape_of(x)[1:], pad, extra, *(members[key] for key in ("window", "dilation", "stride")))
        extents = [(extent - 1) * s - 2 * p + (k - 1) * d + 1 + e for extent, p, e, k, d, s in rows]
        return self.add("transposed_convolution", [x], (filters, *extents), members, "conv", parameters=names)

    op_conv_transpose3d = op_conv_transpose2d

    def op_linear(self, base, a):
        x = self.reading(a["input"])
        names = [n for n in (self.parameter(a["weight"], "the matrix"), self.parameter(a["bias"], "the bias")) if n]
        outputs = self.model.get_parameter(names[0]).shape[0]
        members = {"outputs": outputs, "bias": len(names) == 2}
        if x.layout == "nc":
            return self.add("fully_connected", [x], (outputs, 1, 1), members, "linear", parameters=names)
        if x.layout[-1] != "c":
            self.refuse(f"a linear layer over {x.layout[-1]} of dimensions {x.layout}")
        return self.add("linear", [x], (outputs, *self.shape_of(x)[1:]), members, parameters=names)

    def op_batch_norm(self, base, a):
        x = self.reading(a["input"])
        if x.layout[1:2] != "c":
            self.refuse(f"batch normalization of dimensions in the order {x.layout}")
        names = [n for n in (self.parameter(a["weight"], "the scale"), self.parameter(a["bias"], "the shift")) if n]
        if len(names) == 1:
            self.refuse("batch normalization with a scale and no shift, or the other way round")
        statistics = [value.name if isinstance(value, Named) else None for value in (a["running_mean"], a["running_var"])]
        if a["training"] != self.is_training() and statistics[0]:
            self.refuse_mode("batch_norm", a["training"])
        module = self.model.get_submodule(self.path())
        has_own = isinstance(module, _BatchNorm) and statistics[0] and a["momentum"] != module.momentum
        return self.add("batch_normalization", [x], self.shape_of(x), {"scale_and_shift": bool(names)}, parameters=names,
                        eps=a["eps"], momentum=a["momentum"], statistics=statistics,
                        **({"has_own_momentum": True} if has_own else {}))

    def op_layer_norm(self, base, a):
        x = self.reading(a["input"])
        axes = x.layout[-len(a["normalized_shape"]):]
        if "n" in axes or "c" not in axes or ("h" in axes) != ("w" in axes) and "h" in x.layout:
            self.refuse(f"layer normalization over {axes} of dimensions {x.layout}")
        names = [n for n in (self.parameter(a["weight"], "the scale"), self.parameter(a["bias"], "the shift")) if n]
        shape = self.shape_of(x)
        if axes == "c" or not names and len(axes) == len(x.layout) - 1:
            return self.normalized(x, {"by_position": True} if axes == "c" else {}, a)
        members = {"kind": "layer_normalization", "channels": shape[0], "extents": list(shape[1:])}
        return self.add("opaque", [x],
                        shape,
                        members,
                        "layer_norm",
                        parameters=names,
                        function="layer_norm",
                        axes=axes,
                        order=x.layout,
                        normalized=list(a["normalized_shape"]),
                        eps=a["eps"],
                        has_weight=a["weight"] is not None)

    def op_group_norm(self, base, a):
        x = self.reading(a["input"])
        if x.layout[1:2] != "c":
            self.refuse(f"group normalization of dimensions in the order {x.layout}")
        return self.normalized(x, {"groups": a["num_groups"]}, a)

    def normalized(self, x, members, a):
        """Adds a group normalization with scale and shift. If it has only one of these, a separate node applies the
        scale or the shift."""
        shape, has = self.shape_of(x), {"scale": a["weight"] is not None, "shift": a["bias"] is not None}
        names = [n for n in (self.parameter(a["weight"], "the scale"), self.parameter(a["bias"], "the shift")) if n]
        y = self.add("group_normalization", [x], shape, members | {"scale_and_shift": len(names) == 2}, "norm",
                     parameters=names if len(names) == 2 else (), eps=a["eps"])
        return self.add("scale", [y], shape, has, "scale", parameters=names) if len(names) == 1 else y

    def lrn(self, a, module):
        """torch expands lrn into a dozen operators: the first one adds the node, the others return its result."""
        refs = [value for value in a.values() if isinstance(value, Ref)]
        for ref in refs:
            if self.by_name[ref.node].op == "lrn" and self.by_name[ref.node].module == self.path():
                return ref
        if not refs:
            return None
        members = {"size": module.size, "alpha": module.alpha, "beta": module.beta, "k": module.k}
        return self.add("lrn", [self.standard(refs[0], "normalization")], self.shape_of(refs[0]), members)

    def is_function_of_one_number(self, base):
        """Returns whether torch's operator computes each element from one element of a single tensor, keeps its type,
        and draws no random numbers."""
        target, x, y = self.fx.target, self.fx.args[0] if self.fx.args else None, self.fx.meta.get("val")
        # an operator that writes into x has no tags, so look up its out-of-place variant
        target = getattr(getattr(torch.ops.aten, base, None), target._overloadname, target)
        return torch.Tag.pointwise in target.tags and torch.Tag.nondeterministic_seeded not in target.tags and \
            sum("Tensor" in str(argument.type) for argument in target._schema.arguments) == 1 and \
            isinstance(x, torch.fx.Node) and isinstance(y, torch.Tensor) and y.dtype == x.meta["val"].dtype

    def activation(self, base, a):
        (key, x), *rest = a.items()
        x = self.reading(x)
        kind = ACTIVATIONS.get(base, "other")
        named = {argument.name: a[argument.name] for argument in self.fx.target._schema.arguments if argument.kwarg_only}
        rest = [value for other, value in rest if other not in named]
        if base == "hardtanh" and rest == [0, 6]:
            kind = "relu6"
        if any(isinstance(value, (Ref, Named, Mask)) for value in rest):
            self.refuse(f"torch.ops.aten.{base} of two tensors")
        return self.add("activation", [x], self.shape_of(x), {"kind": kind}, base, function=base, arguments=rest, named=named)

    def pooled(self, op, x, kind, window, stride, pad, ceil, **call):
        shape, extents = self.shape_of(x), []
        for extent, k, s, p in zip(shape[1:], window, stride, pad):
            rest = extent + 2 * p - k
            count = (-(-rest // s) if ceil else rest // s) + 1
            if ceil and (count - 1) * s >= extent + p:
                count -= 1
            extents.append(count)
        members = {"kind": kind, "window": window, "stride": stride, "pad": pad, "round_up": bool(ceil)}
        return self.add("pooling", [x], (shape[0], *extents), members, op, **call)

    def op_max_pool2d(self, base, a):
        x = self.standard(a["self"], "pooling")
        window = self.spatial(a["kernel_size"], x)
        if any(d != 1 for d in self.spatial(a["dilation"], x)):
            self.refuse(f"pooling with dilation={a['dilation']}: 1 is expected")
        return self.pooled(base, x, "maximum", window, self.spatial(a["stride"], x, window), self.spatial(a["padding"], x),
                           a["ceil_mode"])

    op_max_pool3d = op_max_pool2d_with_indices = op_max_pool3d_with_indices = op_max_pool2d

    def op_avg_pool2d(self, base, a):
        x = self.standard(a["self"], "pooling")
        window = self.spatial(a["kernel_size"], x)
        return self.pooled(base, x, "average", window, self.spatial(a["stride"], x, window), self.spatial(a["padding"], x),
                           a["ceil_mode"], counts_padding=a["count_include_pad"], divisor=a["divisor_override"])

    op_avg_pool3d = op_avg_pool2d

    def op_adaptive_avg_pool2d(self, base, a):
        x = self.standard(a["self"], "pooling")
        kind = "maximum" if "max" in base else "average"
        shape, wanted = self.shape_of(x), self.spatial(a["output_size"], x)
        if all(extent == 1 for extent in wanted):
            return self.add("global_pooling", [x], (shape[0], *wanted), {"kind": kind}, base)
        if all(extent % count == 0 for extent, count in zip(shape[1:], wanted)):
            window = [extent // count for extent, count in zip(shape[1:], wanted)]
            call = {} if kind == "maximum" else {"counts_padding": True, "divisor": None}
            return self.pooled(base, x, kind, window, window, [0] * len(window), False, **call)
        members = {"kind": base, "channels": shape[0], "extents": wanted}
        return self.add("opaque", [x], (shape[0], *wanted), members, base, function=base, arguments=[wanted])

    op_adaptive_avg_pool3d = op_adaptive_max_pool2d = op_adaptive_max_pool3d = op_adaptive_avg_pool2d

    def op_mean(self, base, a):
        x = self.reading(a["self"])
        dims = sorted(dim % len(x.layout) for dim in a.get("dim") or range(len(x.layout)))
        if {x.layout[dim] for dim in dims} != set(x.layout) - {"n", "c"} or a.get("dtype") is not None:
            positions = [dim for dim, axis in enumerate(x.layout) if axis not in "nc"]
            self.refuse(f"a mean over dimensions {dims} of {x.layout}: over all positions, which are {positions}, is expected")
        shape = self.shape_of(x)
        layout = x.layout if a["keepdim"] else "nc"
        return self.add("global_pooling", [x], (shape[0], *[1] * (len(shape) - 1)), {"kind": "average"}, "mean", layout)

    def op_dropout(self, base, a):
        x = self.reading(a.get("input", a.get("self")))
        members = {"rate": a["p"]} | ({"per": "channel"} if base == "feature_dropout" else {})
        if not a["train"] and self.is_training():
            return x
        if a["train"] and not self.is_training():
            self.refuse_mode(base, True)
        return self.add("dropout", [x], self.shape_of(x), members)

    op_feature_dropout = op_dropout

    def op_bernoulli(self, base, a):
        if not isinstance(a["self"], Mask) or not isinstance(a.get("p"), float):
            self.refuse("random numbers that are no mask of images")
        shape = list(self.fx.meta["val"].shape)
        if shape[0] != BATCH or any(extent != 1 for extent in shape[1:]):
            self.refuse(f"random numbers of shape {shape}: one for each image is expected")
        return Mask(1 - a["p"])

    def op_div(self, base, a):
        x, other = a["self"], a["other"]
        if isinstance(x, Mask) and isinstance(other, float) and abs(other + x.rate - 1) < 1e-9:
            return Mask(x.rate, True)
        if isinstance(other, Named) and other.kind != "constant" and a.get("rounding_mode") is None:
            return self.scaled("div", self.reading(x), other)
        return self.by_number("div", self.reading(x), other, {"rounding_mode": a.get("rounding_mode")})

    def by_number(self, base, x, number, named=None):
        """Adds a function of x and a constant number. `named` has further arguments; arguments of value None are
        dropped."""
        if isinstance(number, Named) and number.kind == "constant":
            value = self.program.constants[number.name]
            number = value.item() if value.ndim == 0 and not value.is_meta else number
        if isinstance(number, (bool, int, float)):
            named = {key: value for key, value in (named or {}).items() if value is not None}
            return self.add("activation", [x], self.shape_of(x), {"kind": "other"}, base, function=base, arguments=[number],
                            named=named)
        told = f"the {number.kind} {number.name!r}" if isinstance(number, Named) else f"the output of {number.node!r}" if isinstance(
            number, Ref) else repr(number)
        self.refuse(f"torch.ops.aten.{base} of {told}; a number of the program is expected")

    def op_mul(self, base, a):
        x, other = a["self"], a["other"]
        if isinstance(x, (Named, Mask)) and isinstance(other, Ref) or isinstance(x, Ref) and isinstance(other, Ref) and \
                self.shape_of(x) != self.shape_of(other) and max(self.shape_of(x)[1:]) == 1:
            x, other = other, x
        x = self.reading(x)
        if isinstance(other, Mask):
            if not other.scaled:
                self.refuse("a mask of images that is not divided by how many it keeps")
            return self.add("dropout", [x], self.shape_of(x), {"rate": other.rate, "per": "image"})
        if isinstance(other, Named) and other.kind != "constant":
            return self.scaled("mul", x, other)
        if not isinstance(other, Ref):
            return self.by_number("mul", x, other)
        shape, gate = self.shape_of(x), self.shape_of(other)
        if gate[0] != shape[0] or x.layout != other.layout or gate[1:] != shape[1:] and max(gate[1:]) > 1:
            self.refuse(f"a product of shapes {shape} and {gate}: one shape, or one number a channel, is expected")
        return self.add("multiply", [x, other], shape, kind="mul")

    def scaled(self, base, x, parameter):
        """Adds a function of x and one number for each channel. The number is a parameter, or a buffer, which counts as
        a parameter that is not trained."""
        name, function = parameter.name, {} if base in ("add", "mul") else {"function": base}
        shape = parameter.shape or tuple(self.tensor(name).shape)
        if not self.tensor(name).is_floating_point():
            self.refuse(f"a {parameter.kind} of {self.tensor(name).dtype}: a floating-point type is expected")
        if math.prod(shape) == 1 < self.extent(x, "c"):
            return self.with_whole(base, x, name)
        padded = (1,) * (len(x.layout) - len(shape)) + shape
        for axis, extent in zip(x.layout, padded):
            if extent != (self.extent(x, "c") if axis == "c" else 1):
                self.refuse(f"a parameter of shape {shape} along dimensions {x.layout}: one number a channel is expected, or "
                            "one number")
        members = {"scale": base in ("mul", "div"), "shift": base in ("add", "sub")}
        return self.add("scale", [x], self.shape_of(x), members, base, parameters=[name], **function)

    def with_whole(self, base, x, name):
        """Adds a function of x and a parameter. Every part of this node has the whole parameter and all channels of
        x."""
        if isinstance(self.tensor(name), torch.nn.Parameter) and self.tensor(name).ndim == 0:
            # In a saved state, a tensor without dimensions counts as the optimizer's step counter and not as a part of
            # a parameter.
            self.refuse(f"the parameter {name!r} without dimensions: one of shape (1,) is expected")
        channels, *extents = self.shape_of(x)
        members = {"kind": base, "channels": channels, "extents": extents} | SEPARATE_POSITIONS
        return self.add("opaque", [x], (channels, *extents), members, base, parameters=[name], function=base, arguments=[])

    def op_prelu(self, base, a):
        x, name = self.reading(a["self"]), self.parameter(a["weight"], "the slope")
        if x.layout[1:2] != "c":
            self.refuse(f"a PReLU of dimensions in the order {x.layout}: channels second are expected")
        return self.with_whole(base, x, name)

    def op_add(self, base, a):
        x, other = a["self"], a["other"]
        if isinstance(x, Named) and isinstance(other, Ref) and a.get("alpha", 1) == 1:
            x, other = other, x
        x = self.reading(x)
        if isinstance(other, Named) and other.kind != "constant" and a.get("alpha", 1) == 1:
            return self.scaled("add", x, other)
        if not isinstance(other, Ref):
            return self.by_number("add", x, other, {"alpha": a.get("alpha")})
        if a.get("alpha", 1) != 1:
            other = self.by_number("mul", other, a["alpha"])
        if self.shape_of(x) != self.shape_of(other) or x.layout != other.layout:
            self.refuse(f"a sum of shapes {self.shape_of(x)} and {self.shape_of(other)} in the orders {x.layout} and {other.layout}: the "
                        "same shape and order are expected")
        return self.add("add", [x, other], self.shape_of(x))

    def op_sub(self, base, a):
        if isinstance(a["other"], Named) and a["other"].kind != "constant" and a.get("alpha", 1) == 1:
            return self.scaled("sub", self.reading(a["self"]), a["other"])
        if not isinstance(a["other"], Ref):
            return self.by_number("sub", self.reading(a["self"]), a["other"], {"alpha": a.get("alpha")})
        negative = self.by_number("mul", a["other"], -a.get("alpha", 1))
        return self.op_add(base, {"self": a["self"], "other": negative})

    def op_rsub(self, base, a):
        if isinstance(a["other"], Ref):
            return self.op_sub(base, {"self": a["other"], "other": a["self"], "alpha": a["alpha"]})
        return self.by_number("rsub", self.reading(a["self"]), a["other"], {"alpha": a["alpha"]})

    def op_pow(self, base, a):
        if isinstance(a["self"], (bool, int, float)) and isinstance(a["exponent"], Ref):
            x = a["exponent"]
            return self.add("activation", [x], self.shape_of(x), {"kind": "other"}, base, function=base, before=[a["self"]])
        return self.by_number("pow", self.reading(a["self"]), a["exponent"])

    def op_cat(self, base, a):
        refs = [self.reading(value) for value in a["tensors"]]
        axis = refs[0].layout[a["dim"] % len(refs[0].layout)]
        if axis == "n" or any(ref.layout != refs[0].layout for ref in refs):
            self.refuse(f"a concatenation along {axis} of dimensions {[ref.layout for ref in refs]}")
        shape = list(self.shape_of(refs[0]))
        place = ("cdhw" if len(shape) == 4 else "chw").index(axis)
        shape[place] = sum(self.shape_of(ref)[place] for ref in refs)
        return self.add("concat", refs, shape, {"axis": axis}, "cat")

    def op_softmax(self, base, a):
        x = self.reading(a["self"])
        if x.layout[a["dim"] % len(x.layout)] != "c":
            self.refuse(f"a softmax over dimension {a['dim']} of {x.layout}: over c, the channels, is expected")
        return self.add("softmax", [x], self.shape_of(x))

    op__softmax = op_softmax

    def op_log_softmax(self, base, a):
        x = self.reading(a["self"])
        if x.layout[a["dim"] % len(x.layout)] != "c":
            self.refuse(f"a softmax over dimension {a['dim']} of {x.layout}: over c, the channels, is expected")
        shape = self.shape_of(x)
        members = {"kind": "log_softmax", "channels": shape[0], "extents": list(shape[1:])} | SEPARATE_POSITIONS
        return self.add("opaque", [x], shape, members, base, function="log_softmax", arguments=[1])

    def op_constant_pad_nd(self, base, a):
        x = self.standard(a["self"], "padding")
        if a["value"]:
            self.refuse(f"padding with {a['value']}: 0 is expected")
        rank = len(self.shape_of(x)) - 1
        pads = list(a["pad"]) + [0] * (2 * (rank + 1) - len(a["pad"]))
        if len(pads) > 2 * (rank + 1):
            self.refuse("padding of the batch: of channels and positions is expected")
        ends = [(pads[2 * i], pads[2 * i + 1]) for i in range(rank + 1)]  # pairs (before, after), last axis first
        before = [ends[rank - 1 - i][0] for i in range(rank)]
        after = [ends[rank - 1 - i][1] for i in range(rank)]
        members = {"before": before, "after": after, "channels_before": ends[rank][0], "channels_after": ends[rank][1]}
        channels, *extents = self.shape_of(x)
        shape = (channels + sum(ends[rank]), *[extent + b + e for extent, b, e in zip(extents, before, after)])
        return self.add("padding", [x], shape, members, "pad")

    op_pad = op_constant_pad_nd

    def op_upsample_nearest2d(self, base, a):
        x = self.standard(a.get("self", a.get("input")), "resizing")
        channels, *extents = self.shape_of(x)
        wanted = list(self.fx.meta["val"].shape[2:])
        if any(new % old for new, old in zip(wanted, extents)):
            self.refuse(f"resizing of {extents} to {wanted}: whole factors are expected")
        factor = [new // old for new, old in zip(wanted, extents)]
        given = a.get("scale_factors") or [a.get(f"scales_{axis}") for axis in "dhw"[-len(factor):]]
        a.items()  # marks all arguments as read: the arguments that were not read only repeat `wanted`
        if any(one not in (None, each) for one, each in zip(given, factor)):
            self.refuse(f"resizing of {extents} to {wanted} by the factors {given}: {factor} are expected")
        return self.add("upsampling", [x], (channels, *wanted), {"factor": factor}, "upsample")

    op_upsample_nearest3d = op_upsample_nearest2d

    # ---- Operators that only rearrange or retype tensors

    def identity(self, base, a):
        x = next(value for _, value in a.items())
        if isinstance(x, Ref):
            self.refuse_conversion()
        return Ref(x.node, x.layout, next(self.storages)) if isinstance(x, Ref) and base in ("clone", "_to_copy") else x

    op_alias = op_clone = op_contiguous = op_to = op_lift_fresh_copy = op__to_copy = identity

    def op_detach(self, base, a):
        if isinstance(a["self"], Ref):
            self.refuse(f"torch.ops.aten.{base} of {a['self'].node}, where gradients end; requires_grad_(False) of the layers "
                        "before it has a rule")
        return a["self"]

    def refuse_conversion(self):
        before, behind = self.fx.args[0].meta["val"].dtype, self.fx.meta["val"].dtype
        if before != behind:
            self.refuse(f"a conversion of {before} to {behind}; torch.autocast around the model has a rule")

    def op_permute(self, base, a):
        x = self.reading(a["self"])
        return Ref(x.node, "".join(x.layout[dim] for dim in a["dims"]), x.storage)

    def op_transpose(self, base, a):
        x = self.reading(a["self"])
        layout = list(x.layout)
        i, j = (dim % len(layout) for key, dim in a.items() if key != "self")
        layout[i], layout[j] = layout[j], layout[i]
        return Ref(x.node, "".join(layout), x.storage)

    op_swapaxes = op_swapdims = op_transpose

    def op_movedim(self, base, a):
        x, ends = self.reading(a["self"]), [a["source"], a["destination"]]
        sources, places = ([dim % len(x.layout) for dim in ([end] if isinstance(end, int) else end)] for end in ends)
        moved, rest = dict(zip(places, sources)), iter(dim for dim in range(len(x.layout)) if dim not in sources)
        layout = [x.layout[moved[place] if place in moved else next(rest)] for place in range(len(x.layout))]
        return Ref(x.node, "".join(layout), x.storage)

    op_moveaxis = op_movedim

    def op_view(self, base, a):
        """Handles every operator that keeps a tensor's numbers. The result's shape shows how they were rearranged."""
        shape, x = tuple(self.fx.meta["val"].shape), next(value for _, value in a.items())
        if isinstance(x, Named):
            kind, name = x.kind, x.name
            if kind == "constant" or self.tensor(name).ndim != 1 or max(shape) != math.prod(shape):
                self.refuse(f"a view of {name}, which is no vector of parameters")
            return Named(kind, name, shape)
        x = self.reading(x)
        self.refuse_conversion()
        channels, *extents = self.shape_of(x)
        if shape == tuple(self.fx.args[0].meta["val"].shape):
            return x
        is_plain = x.layout in ("n", "nc", "nchw", "ncdhw") or max(extents) == 1
        if shape[0] != BATCH or not is_plain:
            self.refuse(f"a view of {tuple(self.fx.args[0].meta['val'].shape)} as {shape}, which mixes images or positions")
        if len(shape) in (4, 5) and shape[1:] == (channels, *[1] * (len(shape) - 2)) and len(shape) == len(extents) + 2:
            return Ref(x.node, "nchw" if len(shape) == 4 else "ncdhw", x.storage)
        if len(shape) == 1 and channels == max(extents) == 1:
            return Ref(x.node, "n", x.storage)
        if len(shape) != 2:
            self.refuse(f"a view of {tuple(self.fx.args[0].meta['val'].shape)} as {shape}: flattening is expected")
        if x.layout == "nc" or max(extents) == 1 and self.by_name[x.node].op in ("flatten", "fully_connected"):
            return Ref(x.node, "nc", x.storage)
        return self.add("flatten", [x], (shape[1], 1, 1), layout="nc", storage=x.storage)

    op_flatten = op_reshape = op__unsafe_view = op_squeeze = op_unsqueeze = op_unflatten = op_view
