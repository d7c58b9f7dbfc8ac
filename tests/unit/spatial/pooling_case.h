// Runs poolings on the stand-in, once of a whole image and once of the stripes that ranks have of
// this image.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "cudnn/pooling_call.h"
#include "tests/support/stand_in.h"
#include "tests/unit/spatial/random_layers.h"

namespace ucudnn::test {

using cudnn::PoolingKind;

inline constexpr PoolingKind kMax = {CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN};
inline constexpr PoolingKind kKinds[] = {
    kMax,
    {CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN},
    {CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_NOT_PROPAGATE_NAN},
    {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, CUDNN_NOT_PROPAGATE_NAN},
    {CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN}};

// Holds a pooling of a whole image: x, its result y, and dy for a gradient.
struct WholePooling {
  // The problem of the whole image. Its operation says whether this is the gradient.
  ConvolutionProblem problem;
  PoolingKind kind = kMax;
  double alpha = 1, beta = 0;
  HostTensor x, y, dy, before;  // `before` is the output's content, which beta reads

  WholePooling(const ConvolutionProblem& of, const PoolingKind& kind_of, std::mt19937& random,
               int most)
      : problem(of), kind(kind_of) {
    const Spatial out = OutputExtents(problem);
    const Extents5 y_extents = {problem.n, problem.c, out[0], out[1], out[2]};
    x = RandomTensor({problem.n, problem.c, problem.x[0], problem.x[1], problem.x[2]}, most,
                     random);
    y = HostTensor(y_extents);
    dy = RandomTensor(y_extents, 2, random);
    before = RandomTensor(is_forward() ? y_extents : x.extents, 4, random);
  }
  bool is_forward() const { return problem.operation == Operation::kForward; }
};

// Runs a rank's own call, on tensors that have the strides of its problem.
class OwnPooling : public spatial::LocalCall {
 public:
  OwnPooling(const ConvolutionProblem& problem, const PoolingKind& kind)
      : functions_(StandIn()), pooling_(functions_) {
    EXPECT_TRUE(pooling_.Create(problem, kind).ok());
  }
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    return cudnn::Pool(functions_, pooling_.get(), call);
  }

 private:
  const cudnn::Functions functions_;
  cudnn::OwnedPooling pooling_;
};

struct PoolingResult {
  cudnnStatus_t status = kFine;
  HostTensor output;
  bool is_intact = true;
};

using RunPooling = std::function<cudnnStatus_t(const cudnn::ConvolutionCall&, spatial::LocalCall&)>;

// Prepares a call on `handle` for the part of `whole` that `stripe` has. Lets `run` make the call,
// waits for the handle's stream and returns the result.
inline PoolingResult RunPart(const WholePooling& whole, const Stripe& stripe, cudnnHandle_t handle,
                             const RunPooling& run) {
  const ConvolutionProblem& p = stripe.problem;
  const HostTensor x_part = whole.x.Box(stripe.elements);
  const Box3& of_result = whole.is_forward() ? stripe.windows : stripe.elements;
  const DeviceTensor x(x_part, p.x_strides, p.type);
  const DeviceTensor y(
      whole.is_forward() ? whole.before.Box(stripe.windows) : whole.y.Box(stripe.windows),
      p.y_strides, p.type);
  const DeviceTensor dy(whole.dy.Box(stripe.windows), p.y_strides, p.type);
  const DeviceTensor dx(whole.is_forward() ? x_part : whole.before.Box(of_result), p.x_strides,
                        p.type);
  const Scalar alpha(whole.alpha), beta(whole.beta);
  const cudnn::PoolingOperands operands = {x.data(), y.data()};
  cudnn::ConvolutionCall call;
  call.operation = p.operation;
  call.handle = handle;
  call.alpha = alpha.Of(p.type);
  call.beta = beta.Of(p.type);
  call.x = whole.is_forward() ? x.data() : dx.data();
  call.y = whole.is_forward() ? y.data() : dy.data();
  if (!whole.is_forward()) call.pooling = &operands;
  OwnPooling own(p, whole.kind);
  PoolingResult result;
  result.status = run(call, own);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudnnGetStream(handle, &stream), kFine);
  EXPECT_EQ(cuStreamSynchronize(reinterpret_cast<CUstream>(stream)), CUDA_SUCCESS);
  result.output = whole.is_forward() ? y.Read() : dx.Read();
  result.is_intact = x.IsIntact() && y.IsIntact() && dy.IsIntact() && dx.IsIntact() &&
                     x.Read() == x_part && dy.Read() == whole.dy.Box(stripe.windows);
  return result;
}

inline HostTensor UndividedPooling(const WholePooling& whole) {
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(cudnnCreate(&handle), kFine);
  const PoolingResult result =
      RunPart(whole, WholeStripe(whole.problem), handle,
              [](const auto& call, spatial::LocalCall& own) { return own.Run(call); });
  EXPECT_EQ(result.status, kFine);
  EXPECT_EQ(cudnnDestroy(handle), kFine);
  return result.output;
}

inline PoolingResult RunOnRank(RankState& rank, const WholePooling& whole, const Stripe& stripe) {
  return RunPart(whole, stripe, rank.handle,
                 [&](const cudnn::ConvolutionCall& call, spatial::LocalCall& own) {
                   spatial::SplitCall split{stripe.problem, call, rank.context, rank.stream};
                   split.work = spatial::SplitWork::kPooling;
                   split.pooling = whole.kind;
                   split.declared = rank.declared;
                   return rank.calls->Run(split, own);
                 });
}

// Computes y, which the gradient of a pooling reads.
inline void FillResult(WholePooling& whole) {
  WholePooling forward = whole;
  forward.problem.operation = Operation::kForward;
  forward.alpha = 1;
  forward.beta = 0;
  forward.before = HostTensor(whole.y.extents);
  whole.y = UndividedPooling(forward);
}

// Gives the tensors of each rank a random layout with random gaps.
inline void LayAnyhow(std::vector<Stripe>& stripes, std::mt19937& random) {
  for (Stripe& stripe : stripes) {
    ConvolutionProblem& p = stripe.problem;
    const Spatial out = OutputExtents(p);
    const Layout layout = Draw(0, 1, random) == 0 ? Layout::kNchw : Layout::kNhwc;
    p.x_strides = WithGaps(layout, {p.n, p.c, p.x[0], p.x[1], p.x[2]}, random);
    p.y_strides = WithGaps(layout, {p.n, p.c, out[0], out[1], out[2]}, random);
  }
}

// Holds a pooling of one group, and the stripe of each of its ranks.
struct CutPooling {
  WholePooling whole;
  std::vector<Stripe> stripes;
  HostTensor expected;  // result of the undivided pooling

  CutPooling(WholePooling of, std::vector<Stripe> cut)
      : whole(std::move(of)), stripes(std::move(cut)) {
    if (!whole.is_forward()) FillResult(whole);
    expected = UndividedPooling(whole);
  }
  const Stripe& StripeOf(const RankJob& job, const RankState& rank) const {
    return stripes[static_cast<size_t>(job.grid().GroupRankOf(rank.rank))];
  }
};

// Expects that the rank's call computes its part of the undivided pooling's result.
inline void ExpectItsPart(RankState& rank, const CutPooling& cut, const Stripe& stripe) {
  const PoolingResult result = RunOnRank(rank, cut.whole, stripe);
  EXPECT_EQ(result.status, kFine);
  EXPECT_TRUE(result.is_intact);
  EXPECT_EQ(result.output,
            cut.expected.Box(cut.whole.is_forward() ? stripe.windows : stripe.elements))
      << "rank " << rank.rank << ", " << cudnn::PoolingName(cut.whole.kind) << " "
      << Describe(cut.whole.problem);
}

// Makes each rank's call `times` times. Expects that the call computes the rank's part of its
// group's pooling.
inline void ExpectPartsOf(RankJob& job, const std::vector<CutPooling>& groups, int times = 1) {
  job.OnAll([&](RankState& rank) {
    const CutPooling& cut = groups[static_cast<size_t>(job.grid().GroupOf(rank.rank))];
    for (int i = 0; i < times; ++i) ExpectItsPart(rank, cut, cut.StripeOf(job, rank));
  });
}

}  // namespace ucudnn::test
