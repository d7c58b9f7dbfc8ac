// This libucudnn answers nothing itself: every call of the drop-in reaches the real library.
#include "api/hooks.h"

namespace ucudnn {

std::span<const Hook> Hooks() { return {}; }

}  // namespace ucudnn
