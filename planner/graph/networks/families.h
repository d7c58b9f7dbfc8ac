// The families of the built-in networks, one file each. Pure functions; networks.h lists the
// networks themselves, and the errors would be faults of the descriptions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

constexpr int32_t kImageNetClasses = 1000;
// ImageNet-22K as DeePa, appendix A.4, counts its categories.
constexpr int32_t kImageNet22KClasses = 21841;

// "One weird trick", section 3: one tower on 224 x 224 images, no normalisation. `filters` are
// those of its five convolutions.
Result<Graph> AlexNet(const std::string& name, const std::array<int32_t, 5>& filters,
                      int32_t classes);
// Caffe's bvlc_alexnet (Krizhevsky 2012): two groups, 227 x 227.
Result<Graph> AlexNetCaffe(const std::string& name);
// Simonyan and Zisserman 2014, configuration D.
Result<Graph> Vgg16(const std::string& name, int32_t classes);
// He 2015, table 1, with `blocks` in the four stages, either two 3 x 3 convolutions or the
// bottlenecks of 1 x 1, 3 x 3 and 1 x 1; these reduce the image in the 3 x 3, as torchvision does.
enum class ResidualBlock { kBasic, kBottleneck };
Result<Graph> ResNet(const std::string& name, ResidualBlock block,
                     const std::array<int, 4>& blocks);
// He 2016 ("Identity Mappings in Deep Residual Networks"): the same stages with normalisation and
// activation in front of each convolution, so that nothing is behind a sum. As its appendix has it,
// the first block takes what the stem has activated, projections read what is activated, and the
// last sum is activated once more.
Result<Graph> ResNetV2(const std::string& name, ResidualBlock block,
                       const std::array<int, 4>& blocks);
// Szegedy 2015b, 299 x 299, without the auxiliary classifier.
Result<Graph> InceptionV3(const std::string& name, int32_t classes);
// How a dense block joins what its layers give: one Concat behind each layer of all before it and
// the layer's own (as Caffe's networks do), or in front of each layer one of all single outputs (as
// torch and ONNX do). The mathematics is the same.
enum class DenseJoin { kChain, kNary };
// Huang 2016: CIFAR, three blocks of 12 plain layers with `growth` filters, no compression.
Result<Graph> DenseNet40(const std::string& name, int32_t growth, DenseJoin join);
// Huang 2016, table 1: bottlenecks, half the channels kept between blocks.
Result<Graph> DenseNet121(const std::string& name, DenseJoin join);
// Zoph 2017: NASNet-A (`repeats` @ 24 `filters`). `prior_skips` says what a cell behind a reduction
// takes for the cell before: the reduction's own second input (large) or its first (mobile).
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
// convolution to maps of 24 x 24, residual steps u + relu(F u) of that shape, a fully connected
// layer. `first_convolutions` steps of 7 x 7 convolutions, then in each of `blocks` a fully
// connected step and 256 convolutions. Sizes are those whose parameters are the printed ones: the
// text's 50 channels and 16 fully connected steps do not give them.
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
// The decoder of Stable Diffusion's autoencoder (Rombach 2022): from 4 x 128 x 128 latents to an
// image of 1024 x 1024.
Result<Graph> VaeDecoder(const std::string& name);
// The decoder of HunyuanVideo's autoencoder (Kong 2024), whose convolutions are causal in time:
// from 16 x 5 x 60 x 104 latents to 17 frames of 480 x 832. Its images are padded with zeros here.
Result<Graph> VideoVae(const std::string& name);

}  // namespace ucudnn::planner
