// The families of the built-in networks, one file each. Pure functions. networks.h lists the
// networks themselves. An error would be a fault of the description.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

constexpr int32_t kImageNetClasses = 1000;
// The number of categories of ImageNet-22K in DeePa, appendix A.4.
constexpr int32_t kImageNet22KClasses = 21841;

// "One weird trick", section 3: one tower on 224 x 224 images, no normalisation. `filters` are the
// filters of its five convolutions.
Result<Graph> AlexNet(const std::string& name, const std::array<int32_t, 5>& filters,
                      int32_t classes);
// Caffe's bvlc_alexnet (Krizhevsky 2012): two groups, 227 x 227.
Result<Graph> AlexNetCaffe(const std::string& name);
// Simonyan and Zisserman 2014, configuration D.
Result<Graph> Vgg16(const std::string& name, int32_t classes);
// He 2015, table 1, with `blocks` blocks in the four stages: either two 3 x 3 convolutions, or
// bottlenecks of 1 x 1, 3 x 3 and 1 x 1. Bottlenecks reduce the image in the 3 x 3, as torchvision
// does.
enum class ResidualBlock { kBasic, kBottleneck };
Result<Graph> ResNet(const std::string& name, ResidualBlock block,
                     const std::array<int, 4>& blocks);
// He 2016 ("Identity Mappings in Deep Residual Networks"): the same stages with normalisation and
// activation in front of each convolution, so that nothing follows a sum. According to its
// appendix, the first block takes the activated output of the stem, projections read the activated
// input, and the last sum is activated once more.
Result<Graph> ResNetV2(const std::string& name, ResidualBlock block,
                       const std::array<int, 4>& blocks);
// Szegedy 2015b, 299 x 299, without the auxiliary classifier.
Result<Graph> InceptionV3(const std::string& name, int32_t classes);
// How a dense block joins the outputs of its layers. kChain: a Concat behind each layer joins all
// earlier outputs and the layer's own (as in Caffe's networks). kNary: a Concat in front of each
// layer joins all single outputs (as in torch and ONNX). Both compute the same.
enum class DenseJoin { kChain, kNary };
// Huang 2016: CIFAR, three blocks of 12 plain layers with `growth` filters, no compression.
Result<Graph> DenseNet40(const std::string& name, int32_t growth, DenseJoin join);
// Huang 2016, table 1: bottlenecks, half the channels kept between blocks.
Result<Graph> DenseNet121(const std::string& name, DenseJoin join);
// Zoph 2017: NASNet-A (`repeats` @ 24 `filters`). `prior_skips` says which tensor a cell behind a
// reduction takes as the output of the cell before: the reduction's own second input (large) or its
// first (mobile).
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
// Kirby 2020 (layer-parallel multigrid), sections IV-C to IV-E, for MNIST's 28 x 28: an opening
// convolution to maps of 24 x 24, residual steps u + relu(F u) of that shape, and a fully connected
// layer. First come `first_convolutions` steps of 7 x 7 convolutions, then in each of `blocks` a
// fully connected step and 256 convolutions. The sizes are chosen so that the numbers of parameters
// are the printed ones; the text's 50 channels and 16 fully connected steps do not give them.
struct KirbySize {
  int32_t channels;
  int first_convolutions;
  int blocks;
  bool closing_bias;
};
Result<Graph> Kirby(const std::string& name, const KirbySize& size);
// Ronneberger 2015, figure 1: 572 x 572 with unpadded convolutions, two classes.
Result<Graph> UNet(const std::string& name);
// MLPerf's U-Net for volumes of 128 x 128 x 128 (after Isensee 2018, nnU-Net): 32, 64, 128, 256 and
// 320 filters, each level begun by a convolution of stride 2, normalised by instance.
Result<Graph> UNet3d(const std::string& name);
// Returns the decoder of Stable Diffusion's autoencoder (Rombach 2022): from 4 x 128 x 128 latents
// to an image of 1024 x 1024.
Result<Graph> VaeDecoder(const std::string& name);
// Returns the decoder of HunyuanVideo's autoencoder (Kong 2024), whose convolutions are causal in
// time: from 16 x 5 x 60 x 104 latents to 17 frames of 480 x 832. Its images are padded with zeros
// here.
Result<Graph> VideoVae(const std::string& name);

}  // namespace ucudnn::planner
