// Hides the differences between the interfaces of oneDNN 2 and 3, so that all other code is the
// same for both.
#pragma once

#include <dnnl.hpp>
#include <unordered_map>

namespace hostgpu {

struct ConvolutionGeometry {
  // Dilation as oneDNN counts it: 0 means no dilation.
  dnnl::memory::dims stride, dilation, pad, upper_pad;
};

inline dnnl::convolution_forward::primitive_desc DescribeForward(
    dnnl::prop_kind kind, dnnl::algorithm algorithm, const dnnl::memory::desc& x,
    const dnnl::memory::desc& w, const dnnl::memory::desc& y, const ConvolutionGeometry& g,
    const dnnl::primitive_attr& attr, const dnnl::engine& engine) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, algorithm, x, w, y, g.stride, g.dilation, g.pad, g.upper_pad, attr};
#else
  return {{kind, algorithm, x, w, y, g.stride, g.dilation, g.pad, g.upper_pad}, attr, engine};
#endif
}

// Describes a dnnl::convolution_backward_data or dnnl::convolution_backward_weights.
template <class Primitive>
typename Primitive::primitive_desc DescribeBackward(
    dnnl::algorithm algorithm, const dnnl::memory::desc& x, const dnnl::memory::desc& w,
    const dnnl::memory::desc& y, const ConvolutionGeometry& g, const dnnl::primitive_attr& attr,
    const dnnl::engine& engine, const dnnl::convolution_forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, algorithm, x, w, y, g.stride, g.dilation, g.pad, g.upper_pad, hint, attr};
#else
  return {{algorithm, x, w, y, g.stride, g.dilation, g.pad, g.upper_pad}, attr, engine, hint};
#endif
}

// SetReorderScale and PassReorderScale together set the factor by which a reorder multiplies its
// input. With oneDNN 2, the first stores the factor in the primitive, and the second does nothing.
// With oneDNN 3, the first only says that there is a factor, and each run reads it from the `alpha`
// of the second. So the caller must call both functions with the same factor.
inline void SetReorderScale(dnnl::primitive_attr* attr, [[maybe_unused]] float alpha) {
#if DNNL_VERSION_MAJOR >= 3
  attr->set_scales_mask(DNNL_ARG_FROM, 0);
#else
  attr->set_output_scales(0, {alpha});
#endif
}

inline void PassReorderScale([[maybe_unused]] std::unordered_map<int, dnnl::memory>* arguments,
                             [[maybe_unused]] const dnnl::engine& engine,
                             [[maybe_unused]] float* alpha) {
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::memory::desc scalar({1}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
  arguments->insert({DNNL_ARG_ATTR_SCALES | DNNL_ARG_FROM, dnnl::memory(scalar, engine, alpha)});
#endif
}

}  // namespace hostgpu
