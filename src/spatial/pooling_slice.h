// The plan for a slice of a split pooling. Windows at the cuts are pooled again, from own and
// received rows together, and the results overwrite the results of the rank's own call.
#pragma once

#include <memory>
#include <vector>

#include "convolution/pooled_boxes.h"
#include "spatial/slice_plan.h"

namespace ucudnn::spatial {

class PoolingSlice : public SlicePlan {
 public:
  static Result<std::unique_ptr<SlicePlan>> Make(const PlanContext& context,
                                                 const GroupStripes& group,
                                                 const CallProperties& form);

  Status Keep(const SliceCall& slice) const override;
  Status Try(const SliceCall& slice) const override;
  Status Correct(const SliceCall& slice) const override;

 private:
  // A copy of own or received elements into the buffer, to the place `to` within an assembled
  // tensor.
  struct Fetch {
    enum class Source { kReceived, kImage, kOutput } source = Source::kReceived;
    BoxCopy copy;
    int64_t from = 0;  // offset in bytes within the source
    size_t to = 0;
  };
  // A tensor that is assembled in the buffer from own and received elements: its place and size,
  // and whether all of its elements are fetched.
  struct Assembled {
    size_t place = 0, bytes = 0;
    bool is_complete = false;
  };
  struct Step {
    std::unique_ptr<cudnn::OwnedPooling> pooling;
    std::vector<Fetch> fetches;
    Assembled x, dy;     // dy is used only for a gradient
    size_t y = 0;        // for a gradient of maxima: place of the y that is pooled from x
    size_t result = 0;   // place of y, or of dx for a gradient
    size_t count = 0;    // elements of the result; the caller may need only some of them
    size_t wanted = 0;   // place of the first element that the caller needs
    BoxCopy store;       // copies the needed elements to the caller's result
    int64_t stored = 0;  // offset in bytes within the caller's result
    // Used if the caller's beta reads the old result: `keep` copies the old result to place `kept`
    // in packed form, and `put` copies it to the step's result before the pooling.
    BoxCopy keep, put;
    size_t kept = 0;
    // Places of the arrival numbers (SlicePlan::Pack) of the messages that the step reads.
    std::vector<size_t> arrivals;
  };

  using SlicePlan::SlicePlan;
  bool is_forward() const { return problem_.operation == Operation::kForward; }
  bool reads_image() const { return is_forward() || form_.pooling.is_maximum(); }
  std::vector<OwnBox> BoxesOf(const PooledBoxPair& boxes, const PooledBoxPair& counted_from) const;
  void PlanPackets(const GroupStripes& group, std::span<const PooledMessage> receives);
  Status PlanStep(const Stripes& stripes, std::span<const PooledMessage> receives,
                  const PooledBox& box);
  Assembled Assemble(Exchange tensor, const Stripes& stripes,
                     std::span<const PooledMessage> receives, const PooledBox& box,
                     PlaceAllocator& places, Step& step) const;
  void PlanResult(const Stripes& stripes, const PooledBox& box, PlaceAllocator& places, Step& step);
  Status RunStep(const Step& step, const SliceCall& slice) const;
  Status RunPooling(const Step& step, const SliceCall& slice) const;

  std::vector<Step> steps_;
};

}  // namespace ucudnn::spatial
