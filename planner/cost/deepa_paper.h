// The cost model behind DeePa's Tables 2 and 3, found by fitting their printed values. Pure
// functions.
//
// transfer: the workers receive one after the other. Each receives all that it needs, even what it
// already holds, but no halos. A transfer takes no time between equal configurations in which no
// two workers need the same channels. If one of the two layers has a degree r above 1, a transfer
// also takes no time if every worker holds all that it needs.
// update: every replica pushes its gradients in turn.
// reduction, which the paper does not have: every worker pushes its partial sums in turn, at the
// bandwidth of transfers.
//
// The paper gives no bandwidths, and no single bandwidth explains both tables. The following
// bandwidths (MiB per ms, one direction) explain every printed digit:
//   fully connected, transfer and update   15/7    (2.247 GB/s)
//   convolution, transfer                  5       (5.243 GB/s)
//   convolution, update                    45/14   (3.370 GB/s)
//
// compute: the paper prints the times of two layers (9216 -> 4096 fully connected; 3x3 convolution
// 512 -> 512 on 14 x 14). The model scales these times by the batch, by the largest worker's share
// and, for the convolution, by the gain that the paper measured for dividing height and width. All
// other layers get the time of a roofline of the paper's device. The paper probably used Winograd's
// algorithm, because Table 3's convolution does 16.7 TFLOP/s, about four times the peak of 4.37. If
// so, this roofline is too slow. That would explain why the last 3x3 layer of Inception-v3 is best
// on 8 devices in this model, but on 4 devices in the paper's Figure 2.
#pragma once

#include "planner/cost/cost_model.h"

namespace ucudnn::planner {

class DeePaPaperModel : public CostModel {
 public:
  DeePaPaperModel();  // uses the device of the machine k80x16

  ComputeModel::Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override;
  double UpdateMs(const PlannedLayer& layer,
                  const ParallelConfiguration& configuration) const override;
  double ReductionMs(const PlannedLayer& layer,
                     const ParallelConfiguration& configuration) const override;
  TransferTables Transfer(const PlannedLayer& consumer, int input,
                          std::span<const ParallelConfiguration> from,
                          std::span<const ParallelConfiguration> to) const override;

 private:
  const Roofline roofline_;
};

}  // namespace ucudnn::planner
