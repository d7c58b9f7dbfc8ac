"""Writes torch_*.onnx, tf_residual.onnx, googlenet_deploy.prototxt, vgg16_v1.prototxt and resnet18_deploy.prototxt beside this
file. The ONNX networks (for which PyPI's onnx, 1.16 or newer, is needed) are put together node by node the way torch.onnx and
tf2onnx do, with weights that have a shape and no values. GoogLeNet has the structure of BVLC's file, VGG-16 that of the VGG
group's. Nothing but the standard library is needed for the Caffe networks:

    python3 make_networks.py [caffe]
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def write_onnx():
    import onnx
    from onnx import TensorProto, helper

    class Net:
        """A net whose tensors are named after the nodes that make them, like those of torch.onnx."""

        def __init__(self, name, shape, opset=17):
            self.name, self.opset = name, opset
            self.nodes, self.weights, self.counts = [], [], {}
            self.input = helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)
            self.last = "input"

        def op(self, kind, *inputs, **attributes):
            number = self.counts[kind] = self.counts.get(kind, -1) + 1
            output = f"/{kind}_{number}_output_0"
            self.nodes.append(helper.make_node(kind, list(inputs) or [self.last], [output], f"/{kind}_{number}",
                                               **attributes))
            self.last = output
            return output

        def weight(self, *dims):
            tensor = TensorProto(name=f"weight_{len(self.weights)}", data_type=TensorProto.FLOAT, dims=dims)
            tensor.data_location = TensorProto.EXTERNAL
            self.weights.append(tensor)
            return tensor.name

        def integers(self, *values):
            tensor = helper.make_tensor(f"constant_{len(self.weights)}", TensorProto.INT64, [len(values)], values)
            self.weights.append(tensor)
            return tensor.name

        def conv(self, x, c, k, r, stride=1, pad=0, groups=1, bias=False):
            weights = [self.weight(k, c // groups, r, r)] + ([self.weight(k)] if bias else [])
            return self.op("Conv", x, *weights, dilations=[1, 1], group=groups, kernel_shape=[r, r],
                           pads=[pad] * 4, strides=[stride] * 2)

        def norm(self, x, c):
            return self.op("BatchNormalization", x, *(self.weight(c) for _ in range(4)), epsilon=1e-5)

        def pool(self, x, kind, r, stride, pad=0):
            return self.op(kind, x, ceil_mode=0, kernel_shape=[r, r], pads=[pad] * 4, strides=[stride] * 2)

        def linear(self, x, c, k):
            return self.op("Gemm", x, self.weight(k, c), self.weight(k), alpha=1.0, beta=1.0, transB=1)

        def save(self):
            output = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
            graph = helper.make_graph(self.nodes, "main_graph", [self.input], [output], self.weights)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
            # The output gets the shape that ONNX's own shape inference finds.
            inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
            model.graph.output[0].CopyFrom(inferred.graph.output[0])
            with open(os.path.join(HERE, self.name + ".onnx"), "wb") as file:
                file.write(model.SerializeToString(deterministic=True))

    def alexnet():
        net = Net("torch_alexnet", ["batch", 3, 224, 224])
        x, c = "input", 3
        for k, r, stride, pad, pooled in ((64, 11, 4, 2, 1), (192, 5, 1, 2, 1), (384, 3, 1, 1, 0), (256, 3, 1, 1, 0),
                                          (256, 3, 1, 1, 1)):
            x, c = net.op("Relu", net.conv(x, c, k, r, stride, pad, bias=True)), k
            if pooled:
                x = net.pool(x, "MaxPool", 3, 2)
        x = net.op("Flatten", net.pool(x, "AveragePool", 1, 1), axis=1)
        for c, k in ((9216, 4096), (4096, 4096)):
            x = net.op("Relu", net.linear(net.op("Dropout", x), c, k))
        net.linear(x, 4096, 1000)
        net.save()

    def resnet50():
        net = Net("torch_resnet50", [1, 3, 224, 224])
        x = net.op("Relu", net.norm(net.conv("input", 3, 64, 7, 2, 3), 64))
        x, c = net.pool(x, "MaxPool", 3, 2, 1), 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            k = 64 << stage
            for i in range(blocks):
                stride = 2 if stage and not i else 1
                y = net.op("Relu", net.norm(net.conv(x, c, k, 1), k))
                y = net.op("Relu", net.norm(net.conv(y, k, k, 3, stride, 1), k))
                y = net.norm(net.conv(y, k, 4 * k, 1), 4 * k)
                if not i:
                    x = net.norm(net.conv(x, c, 4 * k, 1, stride), 4 * k)
                x, c = net.op("Relu", net.op("Add", y, x)), 4 * k
        x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
        net.linear(x, c, 1000)
        net.save()

    def resnet18_v2():
        """Writes a ResNet with pre-activation as in fb.resnet.torch: no activation follows a sum, and projections read the
        activated state."""
        net = Net("torch_resnet18_v2", ["batch", 3, 224, 224])
        x = net.op("Relu", net.norm(net.conv("input", 3, 64, 7, 2, 3), 64))
        x, c = net.pool(x, "MaxPool", 3, 2, 1), 64
        for stage in range(4):
            k = 64 << stage
            for i in range(2):
                y, stride = x, 2 if stage and not i else 1
                if stage or i:
                    y = net.op("Relu", net.norm(x, c))
                if stride == 2:
                    x = net.conv(y, c, k, 1, stride)
                y = net.op("Relu", net.norm(net.conv(y, c, k, 3, stride, 1), k))
                x, c = net.op("Add", net.conv(y, k, k, 3, 1, 1), x), k
        x = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", net.norm(x, c))), axis=1)
        net.linear(x, c, 1000)
        net.save()

    def layers():
        """Writes residual steps like kirby-2b's: convolutions, and a fully connected layer whose features become a map."""
        net = Net("torch_layers", ["batch", 1, 12, 12])
        x = net.op("Relu", net.conv("input", 1, 4, 7, 1, 1, bias=True))
        for fully_connected in (False, False, True, False):
            if fully_connected:
                y = net.op("Relu", net.linear(net.op("Flatten", x, axis=1), 256, 256))
                y = net.op("Reshape", y, net.integers(-1, 4, 8, 8))
            else:
                y = net.op("Relu", net.conv(x, 4, 4, 7, 1, 3, bias=True))
            x = net.op("Add", x, y)
        net.op("Softmax", net.linear(net.op("Flatten", x, axis=1), 256, 10), axis=-1)
        net.save()

    def densenet121():
        net = Net("torch_densenet121", ["N", 3, 224, 224])
        x = net.op("Relu", net.norm(net.conv("input", 3, 64, 7, 2, 3), 64))
        x, c = net.pool(x, "MaxPool", 3, 2, 1), 64
        for block, layers in enumerate((6, 12, 24, 16)):
            features = [x]
            for _ in range(layers):
                y = net.op("Concat", *features, axis=1)
                y = net.conv(net.op("Relu", net.norm(y, c)), c, 128, 1)
                features.append(net.conv(net.op("Relu", net.norm(y, 128)), 128, 32, 3, 1, 1))
                c += 32
            x = net.norm(net.op("Concat", *features, axis=1), c)
            if block < 3:
                x = net.pool(net.conv(net.op("Relu", x), c, c // 2, 1), "AveragePool", 2, 2)
                c //= 2
        x = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", x)), axis=1)
        net.linear(x, c, 1000)
        net.save()

    def gated():
        """Writes swish as two nodes, and the view of older exporters, x.view(x.size(0), -1). Also writes squeeze and
        excite."""
        net = Net("torch_gated", ["batch", 3, 32, 32], opset=11)
        swish = lambda x: net.op("Mul", x, net.op("Sigmoid", x))
        x = swish(net.norm(net.conv("input", 3, 16, 3, 2, 1), 16))
        x = swish(net.norm(net.conv(x, 16, 16, 5, 1, 2, groups=16), 16))
        gate = net.conv(swish(net.conv(net.op("GlobalAveragePool", x), 16, 4, 1, bias=True)), 4, 16, 1, bias=True)
        x = net.op("Mul", net.op("Sigmoid", gate), x)
        x = net.op("GlobalAveragePool", net.norm(net.conv(x, 16, 24, 1), 24))
        size = net.op("Gather", net.op("Shape", x), net.integers(0), axis=0)
        x = net.op("Reshape", x, net.op("Concat", size, net.integers(-1), axis=0))
        net.linear(x, 24, 10)
        net.save()

    def tensorflow():
        """Writes images with channels last, padding SAME, and biases as nodes of their own."""
        net = Net("tf_residual", ["unk__1", 32, 32, 3], opset=13)
        x = net.op("Transpose", "input", perm=[0, 3, 1, 2])
        x = net.op("Conv", x, net.weight(16, 3, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER")
        x = shortcut = net.op("Relu", net.op("Add", x, net.weight(1, 16, 1, 1)))
        x = net.op("Conv", x, net.weight(16, 16, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = net.op("Relu", net.op("Add", net.norm(x, 16), shortcut))
        x = net.op("Conv", x, net.weight(32, 16, 3, 3), strides=[2, 2], pads=[0, 0, 1, 1])
        x = net.op("Transpose", x, perm=[0, 2, 3, 1])
        x = net.op("Concat", x, net.op("Relu", x), axis=3)
        x = net.op("ReduceMean", x, axes=[1, 2], keepdims=0)
        x = net.op("Add", net.op("MatMul", x, net.weight(64, 10)), net.weight(10))
        net.op("Softmax", x, axis=-1)
        net.save()

    def up_and_down():
        """Writes the operators of U-Nets: transposed convolutions, resizing, padding and cropping."""
        net = Net("torch_unet", ["batch", 1, 30, 30])
        skip = net.op("Relu", net.conv("input", 1, 8, 3, bias=True))
        x = net.op("Relu", net.conv(net.pool(skip, "MaxPool", 2, 2), 8, 16, 3, 1, 1, bias=True))
        up = net.op("ConvTranspose", x, net.weight(16, 8, 2, 2), net.weight(8), strides=[2, 2], kernel_shape=[2, 2])
        up = net.op("Pad", up, net.integers(0, 0, -1, 1, 0, 0, 1, -1), mode="constant")
        x = net.op("Concat", skip, up, axis=1)
        x = net.op("Slice", x, net.integers(2, 2), net.integers(-2, 9223372036854775807), net.integers(2, 3))
        scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2, 2])
        net.weights.append(scales)
        x = net.op("Resize", x, "", "scales", mode="nearest")
        net.conv(x, 16, 2, 1, bias=True)
        net.save()

    for make in (alexnet, resnet50, resnet18_v2, layers, densenet121, gated, tensorflow, up_and_down):
        make()
    print("onnx", onnx.__version__)


def write_caffe():
    class Prototxt:
        def __init__(self, v1=False):
            self.v1, self.lines = v1, []

        def layer(self, name, kind, bottoms, tops, body=""):
            blobs = "".join(f' {"bottom"}: "{b}"' for b in bottoms) + "".join(f' top: "{t}"' for t in tops)
            kind = kind if self.v1 else f'"{kind}"'
            self.lines.append(f'{"layers" if self.v1 else "layer"} {{ name: "{name}" type: {kind}{blobs}'
                              + (f" {body}" if body else "") + " }")

        def save(self, name):
            with open(os.path.join(HERE, name), "w", encoding="ascii") as file:
                file.write("\n".join(self.lines) + "\n")

    def googlenet():
        net = Prototxt()
        net.lines += ['name: "GoogleNet"']
        net.layer("data", "Input", [], ["data"], "input_param { shape: { dim: 10 dim: 3 dim: 224 dim: 224 } }")

        def conv(name, bottom, k, r, stride=1, pad=0):
            geometry = f"num_output: {k} kernel_size: {r}" + (f" stride: {stride}" if stride > 1 else "") \
                + (f" pad: {pad}" if pad else "")
            net.layer(name, "Convolution", [bottom], [name], f"convolution_param {{ {geometry} }}")
            net.layer("relu_" + name, "ReLU", [name], [name])
            return name

        def pool(name, bottom, geometry):
            net.layer(name, "Pooling", [bottom], [name], f"pooling_param {{ {geometry} }}")
            return name

        def lrn(name, bottom):
            net.layer(name, "LRN", [bottom], [name], "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }")
            return name

        x = conv("conv1/7x7_s2", "data", 64, 7, 2, 3)
        x = lrn("pool1/norm1", pool("pool1/3x3_s2", x, "pool: MAX kernel_size: 3 stride: 2"))
        x = conv("conv2/3x3", conv("conv2/3x3_reduce", x, 64, 1), 192, 3, 1, 1)
        x = pool("pool2/3x3_s2", lrn("conv2/norm2", x), "pool: MAX kernel_size: 3 stride: 2")
        for number, widths in (("3a", (64, 96, 128, 16, 32, 32)), ("3b", (128, 128, 192, 32, 96, 64)), ("pool3", ()),
                               ("4a", (192, 96, 208, 16, 48, 64)), ("4b", (160, 112, 224, 24, 64, 64)),
                               ("4c", (128, 128, 256, 24, 64, 64)), ("4d", (112, 144, 288, 32, 64, 64)),
                               ("4e", (256, 160, 320, 32, 128, 128)), ("pool4", ()),
                               ("5a", (256, 160, 320, 32, 128, 128)), ("5b", (384, 192, 384, 48, 128, 128))):
            if not widths:
                x = pool(number + "/3x3_s2", x, "pool: MAX kernel_size: 3 stride: 2")
                continue
            one, reduce3, three, reduce5, five, projected = widths
            m = f"inception_{number}/"
            branches = [conv(m + "1x1", x, one, 1), conv(m + "3x3", conv(m + "3x3_reduce", x, reduce3, 1), three, 3, 1, 1),
                        conv(m + "5x5", conv(m + "5x5_reduce", x, reduce5, 1), five, 5, 1, 2),
                        conv(m + "pool_proj", pool(m + "pool", x, "pool: MAX kernel_size: 3 stride: 1 pad: 1"), projected, 1)]
            x = m + "output"
            net.layer(x, "Concat", branches, [x])
        x = pool("pool5/7x7_s1", x, "pool: AVE kernel_size: 7 stride: 1")
        net.layer("pool5/drop_7x7_s1", "Dropout", [x], [x], "dropout_param { dropout_ratio: 0.4 }")
        net.layer("loss3/classifier", "InnerProduct", [x], ["loss3/classifier"], "inner_product_param { num_output: 1000 }")
        net.layer("prob", "Softmax", ["loss3/classifier"], ["prob"])
        net.save("googlenet_deploy.prototxt")

    def vgg16():
        net = Prototxt(v1=True)
        net.lines += ['name: "VGG_ILSVRC_16_layers"', 'input: "data"', "input_dim: 10", "input_dim: 3", "input_dim: 224",
                      "input_dim: 224"]
        x = "data"
        for block, (count, k) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
            for i in range(1, count + 1):
                name = f"conv{block}_{i}"
                net.layer(name, "CONVOLUTION", [x], [name], f"convolution_param {{ num_output: {k} pad: 1 kernel_size: 3 }}")
                net.layer(f"relu{block}_{i}", "RELU", [name], [name])
                x = name
            net.layer(f"pool{block}", "POOLING", [x], [f"pool{block}"],
                      "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
            x = f"pool{block}"
        for number, k in ((6, 4096), (7, 4096), (8, 1000)):
            net.layer(f"fc{number}", "INNER_PRODUCT", [x], [f"fc{number}"], f"inner_product_param {{ num_output: {k} }}")
            x = f"fc{number}"
            if number < 8:
                net.layer(f"relu{number}", "RELU", [x], [x])
                net.layer(f"drop{number}", "DROPOUT", [x], [x], "dropout_param { dropout_ratio: 0.5 }")
        net.layer("prob", "SOFTMAX", [x], ["prob"])
        net.save("vgg16_v1.prototxt")

    def resnet18():
        net = Prototxt()
        net.lines += ['name: "ResNet-18"', 'input: "data"', "input_shape { dim: 1 dim: 3 dim: 224 dim: 224 }"]

        def conv(name, bottom, k, r, stride, relu=True):
            net.layer(name, "Convolution", [bottom], [name],
                      f"convolution_param {{ num_output: {k} kernel_size: {r} pad: {r // 2} stride: {stride} bias_term: false }}")
            net.layer("bn_" + name, "BatchNorm", [name], [name], "batch_norm_param { use_global_stats: true }")
            net.layer("scale_" + name, "Scale", [name], [name], "scale_param { bias_term: true }")
            if relu:
                net.layer("relu_" + name, "ReLU", [name], [name])
            return name

        x = conv("conv1", "data", 64, 7, 2)
        # FLOOR rounds as torch does; Caffe's own rounding would give 57 rows.
        net.layer("pool1", "Pooling", [x], ["pool1"], "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 round_mode: FLOOR }")
        x = "pool1"
        for stage, k in enumerate((64, 128, 256, 512), 2):
            for i, block in enumerate("ab"):
                name, stride = f"res{stage}{block}", 2 if stage > 2 and not i else 1
                shortcut = conv(name + "_branch1", x, k, 1, stride, relu=False) if stride == 2 else x
                y = conv(name + "_branch2b", conv(name + "_branch2a", x, k, 3, stride), k, 3, 1, relu=False)
                net.layer(name, "Eltwise", [shortcut, y], [name], "eltwise_param { operation: SUM }")
                net.layer(name + "_relu", "ReLU", [name], [name])
                x = name
        net.layer("pool5", "Pooling", [x], ["pool5"], "pooling_param { pool: AVE global_pooling: true }")
        net.layer("fc1000", "InnerProduct", ["pool5"], ["fc1000"], "inner_product_param { num_output: 1000 }")
        net.layer("prob", "Softmax", ["fc1000"], ["prob"])
        net.save("resnet18_deploy.prototxt")

    for make in (googlenet, vgg16, resnet18):
        make()


write_caffe()
if "caffe" not in sys.argv:
    write_onnx()
