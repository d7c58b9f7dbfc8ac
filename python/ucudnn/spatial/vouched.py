"""Classes of modules that are known to be right on stripes, by name. Without torch.

Functions that a module calls are checked when it runs: each function of torch that gets a stripe has a rule or is
refused. How the module's own Python code uses a stripe's shape cannot be checked, so only classes whose code was read
are vouched for."""
import importlib.metadata
import re

# Classes of torch.nn.modules that only call functions with a rule.
_POINTWISE = """
Identity ReLU ReLU6 LeakyReLU ELU CELU SELU GELU SiLU Mish Sigmoid Tanh Hardtanh Hardswish Hardsigmoid Hardshrink Softplus
Softshrink Softsign LogSigmoid Tanhshrink Threshold PReLU GLU Softmax LogSoftmax Softmax2d Softmin Linear Flatten Unflatten
LayerNorm RMSNorm LocalResponseNorm ChannelShuffle CosineSimilarity PairwiseDistance Embedding
""".split()
_CONTAINERS = "Sequential ModuleList ModuleDict ParameterList ParameterDict".split()
_LOSSES = """
MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss CrossEntropyLoss NLLLoss KLDivLoss GaussianNLLLoss
PoissonNLLLoss
""".split()
# Classes that read several positions: their input must be a stripe, or computed from one.
_POSITIONS = """
Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d
AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d GroupNorm Upsample UpsamplingNearest2d
UpsamplingBilinear2d ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d ReflectionPad2d
ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d CircularPad2d CircularPad3d PixelShuffle
PixelUnshuffle
""".split()
# Classes that draw random numbers in training.
DRAWING = "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout RReLU".split()

# The oldest and newest release of other packages for which the code of the classes below was read. tools/setup installs
# the oldest for the tests.
READ = {"torchvision": ("0.24.1", "0.29.2"), "diffusers": ("0.42.1", "0.42.1")}
_OTHERS = {
    "torchvision.models.resnet": "ResNet Bottleneck BasicBlock",
    "torchvision.models.vgg": "VGG",
    "torchvision.models._utils": "IntermediateLayerGetter",
    "torchvision.models.segmentation.deeplabv3": "DeepLabV3 DeepLabHead ASPP ASPPConv ASPPPooling",
    "torchvision.models.segmentation.fcn": "FCN FCNHead",
    "torchvision.models.mobilenetv2": "MobileNetV2 InvertedResidual",
    "torchvision.models.mobilenetv3": "MobileNetV3 InvertedResidual",
    "torchvision.models.segmentation.lraspp": "LRASPP LRASPPHead",
    "torchvision.models.alexnet": "AlexNet",
    "torchvision.models.convnext": "ConvNeXt CNBlock LayerNorm2d",
    "torchvision.models.densenet": "DenseNet _DenseBlock _DenseLayer _Transition",
    "torchvision.models.efficientnet": "EfficientNet MBConv FusedMBConv",
    "torchvision.models.googlenet": "GoogLeNet Inception InceptionAux BasicConv2d",
    "torchvision.models.inception":
        "Inception3 InceptionA InceptionB InceptionC InceptionD InceptionE InceptionAux BasicConv2d",
    "torchvision.models.mnasnet": "MNASNet _InvertedResidual",
    "torchvision.models.regnet": "RegNet AnyStage ResBottleneckBlock BottleneckTransform SimpleStemIN",
    "torchvision.models.shufflenetv2": "ShuffleNetV2 InvertedResidual",
    "torchvision.models.squeezenet": "SqueezeNet Fire",
    "torchvision.ops.stochastic_depth": "StochasticDepth",
    "torchvision.ops.misc": "Conv2dNormActivation Conv3dNormActivation SqueezeExcitation FrozenBatchNorm2d Permute",
    "diffusers.models.autoencoders.autoencoder_kl": "AutoencoderKL",
    "diffusers.models.autoencoders.vae": "Encoder Decoder",
    "diffusers.models.unets.unet_2d_blocks": "UNetMidBlock2D DownEncoderBlock2D UpDecoderBlock2D",
    "diffusers.models.resnet": "ResnetBlock2D",
    "diffusers.models.upsampling": "Upsample2D",
    "diffusers.models.downsampling": "Downsample2D",
    "diffusers.models.attention_processor": "Attention",
}

_WRAPPER = "convert the model inside of it first, and wrap what convert gives"
_WHY = {
    "LSTM": "recurrent", "GRU": "recurrent", "RNN": "recurrent", "LSTMCell": "recurrent", "GRUCell": "recurrent",
    "SyncBatchNorm": "it sums over ranks by itself: use BatchNorm, which is made to count all positions",
    "MultiheadAttention": "its attention is not scaled_dot_product_attention of stripes alone",
    "Fold": "it flattens windows into channels", "Unfold": "it flattens windows into channels",
    "MaxUnpool2d": "its indices count the rank's own rows", "FractionalMaxPool2d": "its windows are drawn at random",
    "ScriptModule": "a script's calls cannot be seen",
    "DistributedDataParallel": _WRAPPER, "DataParallel": _WRAPPER, "FullyShardedDataParallel": _WRAPPER,
}
COMPILED = "runs under torch.compile, whose own kernels (a Triton convolution, say) exchange nothing: leave the converted " \
           "model, and what calls it with stripes, uncompiled"
TRACED = "runs under torch.jit.trace, which records one rank's sizes and no exchange: trace the model before it is converted"
DRAWS = "draws on each rank by itself: in training it is not equal to one process"


def _short(name):
    return name.rsplit(".", 1)[-1]


def looks_around(name):
    return name.startswith("torch.nn.modules.") and _short(name) in _POSITIONS


def is_named(name, trust):
    """Returns whether `trust`, a collection of full or short class names, contains the class with this full name."""
    return name in trust or _short(name) in trust


def reason(name, is_drawing=False):
    """Returns why the class with this full name is not vouched for; None if it is. `is_drawing`: the module draws
    random numbers in training, because it is an RReLU, or because it has a probability above 0, like a dropout, a
    stochastic depth or a DropPath."""
    home, short = name.rsplit(".", 1) if "." in name else ("", name)
    if home.startswith("torch.nn.modules."):
        if short in DRAWING:
            return f"it {DRAWS}" if is_drawing else None
        if short in _POINTWISE + _CONTAINERS + _LOSSES + _POSITIONS:
            return None
        return _WHY.get(short, "not known")
    if home.startswith("torch._dynamo"):
        return COMPILED
    if home.startswith("torch.") and _WHY.get(short) == _WRAPPER:
        return _WRAPPER
    if home.startswith("torch.jit"):
        return _WHY["ScriptModule"]
    if short in _OTHERS.get(home, "").split():
        return f"it {DRAWS}" if is_drawing else None
    return f"its own code is not known, and if it draws random numbers, it {DRAWS}" if is_drawing else "its own code is not known"


def verdict(modules, trust=()):
    """Returns [(path, name, why)] of the modules that are not vouched for. `modules`: (path in the model, full class
    name, whether it draws). `trust`: full or short class names."""
    found = []
    for path, name, is_drawing in modules:
        why = reason(name, is_drawing)
        if why and (why == _WRAPPER or not is_named(name, trust)):
            found.append((path, name, why))
    return found


def newer(names):
    """Returns (package, installed release, newest release that was read) for packages of these full class names whose
    installed release is newer."""
    def release(text):
        return [int(number) for number in re.match(r"[0-9.]*[0-9]", text)[0].split(".")]
    found = []
    for package in sorted(READ.keys() & {name.partition(".")[0] for name in names}):
        try:
            installed, newest = importlib.metadata.version(package), READ[package][1]
        except importlib.metadata.PackageNotFoundError:  # the package is importable but not installed
            continue
        if release(installed) > release(newest):
            found.append((package, installed, newest))
    return found


def message(found):
    lines = [f"  {path or '(the model)'}: {name}: {why}" for path, name, why in found]
    return "nobody vouches for these modules on stripes; name the classes in trust=[...] to take that on yourself:\n" + \
        "\n".join(lines)
