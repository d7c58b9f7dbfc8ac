// The architectures of the built-in networks, one file each; resnet.cpp has ResNet and ResNetV2.
// networks.h lists the networks themselves. A function fails only if its own description of the
// network is wrong. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

constexpr int32_t kImageNetClasses = 1000;
// The number of classes of ImageNet-22K that DeePa gives in appendix A.4.
constexpr int32_t kImageNet22KClasses = 21841;

// "One weird trick", section 3: one tower on 224 x 224 images, without normalisation. `filters` has
// the number of filters of each of the five convolutions.
Result<Graph> AlexNet(const std::string& name, const std::array<int32_t, 5>& filters,
                      int32_t classes);
// Caffe's bvlc_alexnet (Krizhevsky 2012): two groups, on 227 x 227 images.
Result<Graph> AlexNetCaffe(const std::string& name);
// Simonyan and Zisserman 2014, configuration D.
Result<Graph> Vgg16(const std::string& name, int32_t classes);
// He 2015, table 1, with blocks[i] blocks in stage i. A block is either two 3 x 3 convolutions, or
// a bottleneck of 1 x 1, 3 x 3 and 1 x 1. A bottleneck reduces the image in its 3 x 3 convolution,
// as torchvision does.
enum class ResidualBlock { kBasic, kBottleneck };
Result<Graph> ResNet(const std::string& name, ResidualBlock block,
                     const std::array<int, 4>& blocks);
// He 2016 ("Identity Mappings in Deep Residual Networks"): the same stages with normalisation and
// activation in front of each convolution, so that nothing follows a sum. According to the paper's
// appendix, the first block reads the activated output of the stem, projections read the activated
// input, and the last sum is activated once more.
Result<Graph> ResNetV2(const std::string& name, ResidualBlock block,
                       const std::array<int, 4>& blocks);
// Szegedy 2015b, on 299 x 299 images, without the auxiliary classifier.
Result<Graph> InceptionV3(const std::string& name, int32_t classes);
// How a dense block joins the outputs of its layers. kChain: a Concat after each layer joins the
// layer's output to all earlier outputs, as in Caffe's networks. kNary: a Concat before each layer
// joins all single outputs, as in torch and ONNX. Both ways compute the same result.
enum class DenseJoin { kChain, kNary };
// Huang 2016, for CIFAR: three blocks of 12 layers with `growth` filters, without bottlenecks or
// compression.
Result<Graph> DenseNet40(const std::string& name, int32_t growth, DenseJoin join);
// Huang 2016, table 1: bottlenecks, and transitions that halve the channels between blocks.
Result<Graph> DenseNet121(const std::string& name, DenseJoin join);
// Zoph 2017, NASNet-A (N @ F, with N = `repeats` and F = 24 `filters`). A cell reads the outputs of
// the last two cells. The cell after a reduction reads the reduction's output and one of the
// reduction's inputs: the second input if `prior_skips` is set (large), otherwise the first
// (mobile).
struct NasNetSize {
  int32_t extent;
  int32_t stem_filters;
  int32_t filters;
  int repeats;
  bool prior_skips;
};
Result<Graph> NasNetA(const std::string& name, const NasNetSize& size);
// Tan and Le 2019.
Result<Graph> EfficientNetB0(const std::string& name);
// Kirby 2020 (layer-parallel multigrid), sections IV-C to IV-E, for MNIST's 28 x 28 images: an
// opening convolution to maps of 24 x 24, residual steps u + relu(F u) of that shape, and a fully
// connected layer. First come `first_convolutions` steps of 7 x 7 convolutions. Then come, for each
// of `blocks`, one fully connected step and 256 convolutions. The sizes in networks.cpp give the
// numbers of parameters that the paper prints. The 50 channels and 16 fully connected steps of the
// paper's text do not.
struct KirbySize {
  int32_t channels;
  int first_convolutions;
  int blocks;
  bool closing_bias;
};
Result<Graph> Kirby(const std::string& name, const KirbySize& size);
// Ronneberger 2015, figure 1: 572 x 572 images, unpadded convolutions, two classes.
Result<Graph> UNet(const std::string& name);
// MLPerf's U-Net for volumes of 128 x 128 x 128 (after Isensee 2018, nnU-Net): 32, 64, 128, 256 and
// 320 filters. Each level begins with a convolution of stride 2; instance normalisation follows
// convolutions.
Result<Graph> UNet3d(const std::string& name);
// Returns the decoder of Stable Diffusion's autoencoder (Rombach 2022): from 4 x 128 x 128 latents
// to an image of 1024 x 1024.
Result<Graph> VaeDecoder(const std::string& name);
// Returns the decoder of HunyuanVideo's autoencoder (Kong 2024), whose convolutions are causal in
// time: from 16 x 5 x 60 x 104 latents to 17 frames of 480 x 832. Unlike the original, this graph
// pads images with zeros.
Result<Graph> VideoVae(const std::string& name);

}  // namespace ucudnn::planner
