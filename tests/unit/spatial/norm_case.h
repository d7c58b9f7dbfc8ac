// Runs batch normalisation on the stand-in, once of a whole tensor and once of the slices that
// ranks would have of this tensor. Copies between the slices' memories replace the ranks' messages.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "cudnn/norm_call.h"
#include "spatial/norm_statistics.h"
#include "tests/support/stand_in.h"
#include "tests/unit/spatial/random_layers.h"

namespace ucudnn::test {

// Returns the slices of a tensor that is cut along h alone.
inline std::vector<Box3> SlicesAlongHeight(const Spatial& extents,
                                           const std::vector<int64_t>& heights) {
  std::vector<Box3> slices;
  int64_t begin = 0;
  for (const int64_t height : heights) {
    slices.push_back({Interval{0, extents[0]}, {begin, begin + height}, {0, extents[2]}});
    begin += height;
  }
  return slices;
}

struct NormCase {
  DataType type = DataType::kFloat;
  cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL;
  int spatial_rank = 2;
  std::vector<Box3> slices;  // by rank; together they cover the whole tensor
  // y, dx, mean, variance, dscale and dbias hold the numbers from before the call. The call reads
  // these numbers if a beta is not 0 or `factor` is below 1.
  HostTensor x, y, dy, dx;
  HostTensor scale, bias, mean, variance, dscale, dbias;
  double alpha = 1, beta = 0, parameter_alpha = 1, parameter_beta = 0;
  double factor = 1, epsilon = 0.01;
  bool is_in_place = false;  // y is x, and dx is dy
  bool is_saved = true;      // the gradient reads saved statistics
  HostTensor saved_mean, saved_inverse;

  NormCase() = default;
  // Fills tensors with multiples of 1/16, which every type holds. Adds a random whole number to
  // each channel of x. Cuts slices along h, with `heights` rows each; a test may set other slices
  // later.
  NormCase(DataType of_type, int64_t n, int64_t c, const Spatial& extents,
           const std::vector<int64_t>& heights, std::mt19937& random)
      : type(of_type),
        spatial_rank(extents[0] > 1 ? 3 : 2),
        slices(SlicesAlongHeight(extents, heights)) {
    const Extents5 all = {n, c, extents[0], extents[1], extents[2]};
    for (HostTensor* const tensor : {&x, &y, &dy, &dx}) *tensor = Fractions(all, random);
    for (HostTensor* const numbers :
         {&scale, &bias, &mean, &variance, &dscale, &dbias, &saved_mean, &saved_inverse}) {
      *numbers = Fractions({1, c, 1, 1, 1}, random);
    }
    const HostTensor middles = RandomTensor({1, c, 1, 1, 1}, 4, random);
    const size_t in_channel = x.values.size() / static_cast<size_t>(n * c);
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] += middles.values[i / in_channel % static_cast<size_t>(c)];
    }
  }

  static HostTensor Fractions(const Extents5& extents, std::mt19937& random) {
    HostTensor tensor = RandomTensor(extents, 32, random);
    for (double& value : tensor.values) value /= 16;
    return tensor;
  }
  int channels() const { return static_cast<int>(x.extents[1]); }
  double count() const {
    return static_cast<double>(x.extents[0] * x.extents[2] * x.extents[3] * x.extents[4]);
  }
  DataType number_type() const {
    return type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  }
  std::vector<int64_t> Counts() const {
    std::vector<int64_t> counts;
    for (const Box3& box : slices) {
      int64_t& count = counts.emplace_back(x.extents[0]);
      for (const Interval& one : box) count *= one.end - one.begin;
    }
    return counts;
  }
  // Returns a slice of `whole`, which has the shape of x.
  HostTensor Slice(const HostTensor& whole, size_t slice) const { return whole.Box(slices[slice]); }
};

// Holds what a training step and its gradient write.
struct NormResult {
  HostTensor y, mean, variance, saved_mean, saved_inverse, dx, dscale, dbias;
};

// Holds the tensors of one call in device memory, each with random gaps.
class NormTensors {
 public:
  // `of` is the whole case, or one slice of it.
  NormTensors(const NormCase& of, std::mt19937& random) : of_(of) {
    x_ = Image(of.x, random, x_layout_);
    y_ = of.is_in_place ? x_ : Image(of.y, random, y_layout_);
    if (of.is_in_place) y_layout_ = x_layout_;
    dy_ = Image(of.dy, random, dy_layout_);
    dx_ = of.is_in_place ? dy_ : Image(of.dx, random, dx_layout_);
    if (of.is_in_place) dx_layout_ = dy_layout_;
    for (const HostTensor* const numbers :
         {&of.scale, &of.bias, &of.mean, &of.variance, &of.saved_mean, &of.saved_inverse,
          &of.dscale, &of.dbias}) {
      numbers_.push_back(std::make_shared<DeviceTensor>(
          *numbers, PackedStrides(Layout::kNchw, of.channels(), {1, 1, 1}), of.number_type()));
    }
    parameters_ = Descriptor();
    EXPECT_EQ(cudnnDeriveBNTensorDescriptor(parameters_, x_layout_, of.mode), kFine);
    const double scales[] = {of.alpha, of.beta, of.parameter_alpha, of.parameter_beta};
    for (size_t i = 0; i < 4; ++i) wide_[i] = scales[i], narrow_[i] = static_cast<float>(wide_[i]);
  }
  ~NormTensors() {
    for (const cudnnTensorDescriptor_t layout : layouts_) cudnnDestroyTensorDescriptor(layout);
  }
  NormTensors(const NormTensors&) = delete;
  NormTensors& operator=(const NormTensors&) = delete;

  cudnn::NormTraining Training(cudnnHandle_t handle) const {
    return {handle,     of_.mode,   ScaleAt(0),  ScaleAt(1), x_layout_,  x_->data(),
            y_layout_,  y_->data(), parameters_, Numbers(0), Numbers(1), of_.factor,
            Numbers(2), Numbers(3), of_.epsilon, Numbers(4), Numbers(5)};
  }
  cudnn::NormGradient Gradient(cudnnHandle_t handle) const {
    return {handle,
            of_.mode,
            ScaleAt(0),
            ScaleAt(1),
            ScaleAt(2),
            ScaleAt(3),
            x_layout_,
            x_->data(),
            dy_layout_,
            dy_->data(),
            dx_layout_,
            dx_->data(),
            parameters_,
            Numbers(0),
            Numbers(6),
            Numbers(7),
            of_.epsilon,
            of_.is_saved ? Numbers(4) : nullptr,
            of_.is_saved ? Numbers(5) : nullptr};
  }
  // Returns the results. Expects that the inputs and the gaps are unchanged. REQUIRES: the stream
  // has finished.
  NormResult Read() const {
    for (const auto& tensor : {x_, y_, dy_, dx_}) EXPECT_TRUE(tensor->IsIntact());
    for (const auto& numbers : numbers_) EXPECT_TRUE(numbers->IsIntact());
    EXPECT_EQ(numbers_[0]->Read(), of_.scale);
    EXPECT_EQ(numbers_[1]->Read(), of_.bias);
    if (!of_.is_in_place) {
      EXPECT_EQ(x_->Read(), of_.x);
      EXPECT_EQ(dy_->Read(), of_.dy);
    }
    return {y_->Read(),          numbers_[2]->Read(), numbers_[3]->Read(), numbers_[4]->Read(),
            numbers_[5]->Read(), dx_->Read(),         numbers_[6]->Read(), numbers_[7]->Read()};
  }

 private:
  cudnnTensorDescriptor_t Descriptor() {
    cudnnTensorDescriptor_t created = nullptr;
    EXPECT_EQ(cudnnCreateTensorDescriptor(&created), kFine);
    layouts_.push_back(created);
    return created;
  }
  std::shared_ptr<DeviceTensor> Image(const HostTensor& host, std::mt19937& random,
                                      cudnnTensorDescriptor_t& layout) {
    const Layout order = Draw(0, 1, random) == 1 ? Layout::kNchw : Layout::kNhwc;
    const Strides strides = WithGaps(order, host.extents, random);
    std::vector<int> extents(host.extents.begin(), host.extents.end()),
        steps(strides.begin(), strides.end());
    if (of_.spatial_rank == 2) {
      extents.erase(extents.begin() + 2);
      steps.erase(steps.begin() + 2);
    }
    layout = Descriptor();
    EXPECT_EQ(
        cudnnSetTensorNdDescriptor(layout, cudnn::CudnnType(of_.type),
                                   static_cast<int>(extents.size()), extents.data(), steps.data()),
        kFine);
    return std::make_shared<DeviceTensor>(host, strides, of_.type);
  }
  const void* ScaleAt(size_t i) const {
    return of_.type == DataType::kDouble ? static_cast<const void*>(&wide_[i]) : &narrow_[i];
  }
  void* Numbers(size_t i) const { return numbers_[i]->data(); }

  const NormCase of_;
  std::vector<cudnnTensorDescriptor_t> layouts_;
  cudnnTensorDescriptor_t x_layout_ = nullptr, y_layout_ = nullptr, dy_layout_ = nullptr,
                          dx_layout_ = nullptr, parameters_ = nullptr;
  std::shared_ptr<DeviceTensor> x_, y_, dy_, dx_;
  // The elements are scale, bias, mean, variance, saved mean, saved inverse, dscale, dbias.
  std::vector<std::shared_ptr<DeviceTensor>> numbers_;
  std::array<double, 4> wide_ = {};
  std::array<float, 4> narrow_ = {};
};

enum class Step { kTraining, kGradient };

// Makes the undivided call of `step` on `handle`.
inline NormResult RunUndivided(const NormCase& whole, Step step, cudnnHandle_t handle) {
  std::mt19937 random(1);
  const NormTensors tensors(whole, random);
  EXPECT_EQ(step == Step::kTraining ? cudnn::Normalize(StandIn(), tensors.Training(handle))
                                    : cudnn::Normalize(StandIn(), tensors.Gradient(handle)),
            kFine);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  return tensors.Read();
}

// Returns `whole` with the statistics that its training step saves.
inline NormCase Saved(NormCase whole, cudnnHandle_t handle) {
  const NormResult trained = RunUndivided(whole, Step::kTraining, handle);
  whole.saved_mean = trained.saved_mean;
  whole.saved_inverse = trained.saved_inverse;
  return whole;
}

// Holds the tensors and statistics of one of the ranks that share a case.
struct NormRank {
  std::unique_ptr<NormTensors> tensors;
  std::unique_ptr<spatial::NormStatistics> statistics;
  CUdeviceptr scratch = 0;

  NormRank() = default;
  NormRank(NormRank&& other) noexcept
      : tensors(std::move(other.tensors)),
        statistics(std::move(other.statistics)),
        scratch(std::exchange(other.scratch, 0)) {}
  NormRank& operator=(NormRank&&) = delete;
  ~NormRank() {
    if (scratch != 0) {
      EXPECT_EQ(cuMemFree(scratch), CUDA_SUCCESS);
    }
  }
  // Fills scratch memory with NaN, as an earlier call might leave it. Waits for the memset, because
  // other streams do not wait for the default stream, on which it runs.
  void SpoilScratch() const {
    EXPECT_EQ(cuMemsetD8(scratch, 0xFF, statistics->scratch_bytes()), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
};

inline NormCase SliceOf(const NormCase& whole, size_t slice) {
  NormCase own = whole;
  for (HostTensor NormCase::*const tensor :
       {&NormCase::x, &NormCase::y, &NormCase::dy, &NormCase::dx}) {
    own.*tensor = whole.Slice(whole.*tensor, slice);
  }
  return own;
}

class NormJob {
 public:
  NormJob(const cudnn::Functions& functions, cudnnHandle_t handle, const NormCase& whole,
          std::mt19937& random)
      : handle_(handle), whole_(whole) {
    for (size_t slice = 0; slice < whole.slices.size(); ++slice) {
      NormRank rank;
      rank.tensors = std::make_unique<NormTensors>(SliceOf(whole, slice), random);
      auto made = spatial::NormStatistics::Make(
          functions, {whole.type, whole.channels(), whole.Counts(), slice});
      EXPECT_TRUE(made.ok()) << made.message();
      rank.statistics = std::move(*made);
      EXPECT_EQ(cuMemAlloc(&rank.scratch, rank.statistics->scratch_bytes()), CUDA_SUCCESS);
      ranks_.push_back(std::move(rank));
    }
  }

  void Train() {
    for (NormRank& rank : ranks_) {
      rank.SpoilScratch();
      EXPECT_EQ(rank.statistics->RunOwn(rank.tensors->Training(handle_), rank.scratch), kFine);
    }
    Exchange(true);
    for (NormRank& rank : ranks_) {
      ExpectOk(rank.statistics->Finish(rank.tensors->Training(handle_), rank.scratch));
    }
  }
  void Differentiate() {
    for (NormRank& rank : ranks_) rank.SpoilScratch();
    if (!whole_.is_saved) FindStatistics();
    for (NormRank& rank : ranks_) {
      EXPECT_EQ(rank.statistics->RunOwn(rank.tensors->Gradient(handle_), rank.scratch), kFine);
    }
    Exchange(false);
    for (NormRank& rank : ranks_) {
      ExpectOk(rank.statistics->Finish(rank.tensors->Gradient(handle_), rank.scratch));
    }
  }
  std::vector<NormResult> Read() const {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    std::vector<NormResult> results;
    for (const NormRank& rank : ranks_) results.push_back(rank.tensors->Read());
    return results;
  }

 private:
  static void ExpectOk(const Status& finished) { EXPECT_TRUE(finished.ok()) << finished.message(); }
  void FindStatistics() {
    for (NormRank& rank : ranks_) {
      EXPECT_EQ(rank.statistics->RunOwnStatistics(rank.tensors->Gradient(handle_), rank.scratch),
                kFine);
    }
    Exchange(true);
    for (NormRank& rank : ranks_) {
      ExpectOk(rank.statistics->FinishStatistics(rank.tensors->Gradient(handle_), rank.scratch));
    }
  }
  // Copies each rank's message to all ranks: statistics if `is_statistics`, otherwise sums of
  // gradients. If a slice has one element per channel, sets its unbiased variances to NaN, as a
  // division by 0 would.
  void Exchange(bool is_statistics) {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    const std::vector<int64_t> counts = whole_.Counts();
    for (size_t slice = 0; slice < ranks_.size(); ++slice) {
      const spatial::NormStatistics& statistics = *ranks_[slice].statistics;
      const size_t place = statistics.message_place(slice), bytes = statistics.message_bytes();
      const CUdeviceptr message = ranks_[slice].scratch + place;
      if (is_statistics && counts[slice] == 1) {
        EXPECT_EQ(cuMemsetD8(message + bytes / 2, 0xFF, bytes / 2), CUDA_SUCCESS);
      }
      for (size_t other = 0; other < ranks_.size(); ++other) {
        if (other == slice) continue;
        EXPECT_EQ(cuMemcpy(ranks_[other].scratch + place, message, bytes), CUDA_SUCCESS);
      }
    }
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }

  const cudnnHandle_t handle_;
  const NormCase whole_;
  std::vector<NormRank> ranks_;
};

}  // namespace ucudnn::test
