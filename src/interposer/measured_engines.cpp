// What is known of the engines that may serve a legacy kernel, as the interposer asks for it.
#include "interposer/interposer.h"

namespace ucudnn::interposer {

tuning::LegacyKernel Interposer::Asked(const Kernel& kernel) {
  return {DeviceOf(*kernel.session),  kernel.problem, kernel.session->platform(), kernel.handle,
          Capturing(*kernel.session), kernel.graph};
}

Interposer::Measurements Interposer::Measured(const Kernel& kernel,
                                              const planning::PromiseRequest& request,
                                              bool may_measure) {
  Measurements measured = legacy_.Get(Asked(kernel), request, may_measure);
  if (may_measure && !measured.status.ok()) {
    Fallback(kernel.problem, "cannot be measured", measured.status.message());
  }
  NoteUnlikeRanks();
  return measured;
}

cudnn::MixedEngines::Templates Interposer::GraphEnginesOf(const Kernel& kernel,
                                                          const Configuration& plan) {
  return legacy_.GraphEnginesOf(Asked(kernel), plan);
}

Result<planning::NumericClass> Interposer::CoarsestClass(const Kernel& kernel,
                                                         const Configuration& plan,
                                                         const MicroConfiguration& undivided) {
  return legacy_.CoarsestClass(Asked(kernel), plan, undivided);
}

tuning::Trust Interposer::Verify(const Kernel& kernel, const Configuration& plan,
                                 const MicroConfiguration& undivided, bool may_compare) {
  return legacy_.Verify(Asked(kernel), plan, undivided, may_compare);
}

}  // namespace ucudnn::interposer
