#include "command/multigrid_device.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/options.h"
#include "base/text.h"
#include "command/multigrid_words.h"
#include "command/stand_ins.h"
#include "cuda/driver.h"

namespace ucudnn::command {
namespace {

using multigrid::Way;

// None: whichever is measured to be the fastest.
Result<std::optional<Way>> ParseWay(const std::string& text) {
  if (text == "auto") return std::optional<Way>();
  for (const Way way : multigrid::AllWays()) {
    if (text == NameOf(way)) return std::optional<Way>(way);
  }
  return Status::Error("--way " + Quoted(text) + ": expected one of auto, " +
                       multigrid::WayNames());
}

}  // namespace

Result<std::shared_ptr<MultigridDevice>> MultigridDevice::Open(const MultigridWords& words) {
  UCUDNN_ASSIGN_OR_RETURN(const std::optional<Way> way, ParseWay(words.way));
  constexpr int kMostStreams = 1024;
  UCUDNN_ASSIGN_OR_RETURN(const int streams,
                          ParseWhole("--streams", words.streams, 1, kMostStreams));
  const Result<size_t> limit = ParseByteSize(words.workspace_limit);
  if (!limit.ok()) {
    return Status::Error("--workspace-limit " + Quoted(words.workspace_limit) +
                         ": expected bytes, as in 64MiB");
  }
  const Result<const multigrid::Precision*> precision = multigrid::ParsePrecision(words.precision);
  if (!precision.ok()) return Status::Error("--precision " + precision.message());
  auto device = std::make_shared<MultigridDevice>();
  device->precision_ = *precision;
  device->is_stand_in_ = words.host;
  if (words.host) UCUDNN_RETURN_IF_ERROR(UseStandIns());
  std::vector<std::string> refused;
  if (Status opened = device->devices_.Open(ProcessOptions(), {}, refused); !opened.ok()) {
    return Status::Error("--backend cudnn: " + opened.message());
  }
  const multigrid::DeviceTarget target = {cuda::GetDriver(), &device->devices_.functions(),
                                          device->devices_.first().device().context, *precision};
  device->solvers_ = std::make_unique<multigrid::DeviceSolvers>(target, way, streams, *limit);
  return device;
}

std::string MultigridDevice::Text() const {
  return std::string(precision_->text) + " on " +
         (is_stand_in_ ? std::string("the CPU stand-in")
                       : devices_.first().device().platform.device) +
         ", blocks run: " + WayText();
}

std::string MultigridDevice::WayText() const { return NameOf(solvers_->chosen()); }

}  // namespace ucudnn::command
