// VisitFields(op, fields) calls one function of `fields` for each member of `op`, in the order of
// the file format. `fields` reads or writes the members as text; it has these functions:
//
//   fields.Required("filters", int32_t&)     a number without a default
//   fields.Optional("groups", int32_t&)      a number, real number or flag with a default
//   fields.RequiredExtents("window", Spatial&, neutral), OptionalExtents(...)
//                                            extents; the d axis of a two-dimensional operator has
//                                            the value `neutral`
//   fields.ImageExtents("extents", Spatial&, int32_t& spatial_rank)
//                                            an image's extents, spatial_rank of them
//   fields.Choice("kind", enumeration&, names of its values in their order), OptionalChoice(...)
//   fields.Text("kind", std::string&)
#pragma once

#include <array>
#include <cstddef>

#include "planner/graph/graph.h"

namespace ucudnn::planner {

// The names of Operator's alternatives, in their order.
inline constexpr std::array<const char*, std::variant_size_v<Operator>> kOperatorNames = {
    "input",
    "convolution",
    "pooling",
    "global_pooling",
    "fully_connected",
    "activation",
    "batch_normalization",
    "lrn",
    "dropout",
    "add",
    "concat",
    "flatten",
    "softmax",
    "transposed_convolution",
    "multiply",
    "upsampling",
    "padding",
    "scale",
    "reshape",
    "linear",
    "attention",
    "roll",
    "opaque",
    "group_normalization",
    "cross_entropy",
    "logistic_loss"};

inline constexpr std::array<const char*, 2> kPoolingKindNames = {"maximum", "average"};
inline constexpr std::array<const char*, 11> kActivationKindNames = {
    "relu", "sigmoid", "tanh",         "relu6",      "leaky_relu", "elu",
    "gelu", "swish",   "hard_sigmoid", "hard_swish", "other"};
inline constexpr std::array<const char*, 3> kDropoutUnitNames = {"element", "channel", "image"};
inline constexpr std::array<const char*, 4> kConcatAxisNames = {"c", "d", "h", "w"};

template <typename Fields>
void VisitFields(Convolution& op, Fields& fields) {
  fields.Required("filters", op.filters);
  fields.RequiredExtents("window", op.window, 1);
  fields.OptionalExtents("stride", op.stride, 1);
  fields.OptionalExtents("pad", op.pad, 0);
  fields.OptionalExtents("extra_pad", op.extra_pad, 0);
  fields.OptionalExtents("dilation", op.dilation, 1);
  fields.Optional("groups", op.groups);
  fields.Optional("bias", op.bias);
}
template <typename Fields>
void VisitFields(TransposedConvolution& op, Fields& fields) {
  fields.Required("filters", op.filters);
  fields.RequiredExtents("window", op.window, 1);
  fields.OptionalExtents("stride", op.stride, 1);
  fields.OptionalExtents("pad", op.pad, 0);
  fields.OptionalExtents("extra_extent", op.extra_extent, 0);
  fields.OptionalExtents("dilation", op.dilation, 1);
  fields.Optional("groups", op.groups);
  fields.Optional("bias", op.bias);
}
template <typename Fields>
void VisitFields(Pooling& op, Fields& fields) {
  fields.Choice("kind", op.kind, kPoolingKindNames);
  fields.RequiredExtents("window", op.window, 1);
  fields.OptionalExtents("stride", op.stride, 1);
  fields.OptionalExtents("pad", op.pad, 0);
  fields.OptionalExtents("extra_pad", op.extra_pad, 0);
  fields.Optional("round_up", op.round_up);
}
template <typename Fields>
void VisitFields(Input& op, Fields& fields) {
  fields.Required("channels", op.channels);
  fields.ImageExtents("extents", op.extents, op.spatial_rank);
}
template <typename Fields>
void VisitFields(GlobalPooling& op, Fields& fields) {
  fields.Choice("kind", op.kind, kPoolingKindNames);
}
template <typename Fields>
void VisitFields(FullyConnected& op, Fields& fields) {
  fields.Required("outputs", op.outputs);
  fields.Optional("bias", op.bias);
}
template <typename Fields>
void VisitFields(Activation& op, Fields& fields) {
  fields.Choice("kind", op.kind, kActivationKindNames);
}
template <typename Fields>
void VisitFields(BatchNormalization& op, Fields& fields) {
  fields.Optional("scale_and_shift", op.scale_and_shift);
}
template <typename Fields>
void VisitFields(LocalResponseNormalization& op, Fields& fields) {
  fields.Optional("size", op.size);
  fields.Optional("alpha", op.alpha);
  fields.Optional("beta", op.beta);
  fields.Optional("k", op.k);
}
template <typename Fields>
void VisitFields(Dropout& op, Fields& fields) {
  fields.Optional("rate", op.rate);
  fields.OptionalChoice("per", op.per, kDropoutUnitNames);
}
template <typename Fields>
void VisitFields(Upsampling& op, Fields& fields) {
  fields.RequiredExtents("factor", op.factor, 1);
  fields.Optional("reach", op.reach);
}
template <typename Fields>
void VisitFields(Padding& op, Fields& fields) {
  fields.RequiredExtents("before", op.before, 0);
  fields.RequiredExtents("after", op.after, 0);
  fields.Optional("channels_before", op.channels_before);
  fields.Optional("channels_after", op.channels_after);
}
template <typename Fields>
void VisitFields(Scale& op, Fields& fields) {
  fields.Optional("scale", op.scale);
  fields.Optional("shift", op.shift);
}
template <typename Fields>
void VisitFields(Reshape& op, Fields& fields) {
  fields.Required("channels", op.channels);
  fields.ImageExtents("extents", op.extents, op.spatial_rank);
}
template <typename Fields>
void VisitFields(Linear& op, Fields& fields) {
  fields.Required("outputs", op.outputs);
  fields.Optional("bias", op.bias);
}
template <typename Fields>
void VisitFields(Attention& op, Fields& fields) {
  fields.Required("heads", op.heads);
  fields.OptionalExtents("window", op.window, 0);
  fields.Required("keys", op.keys);
}
template <typename Fields>
void VisitFields(Roll& op, Fields& fields) {
  fields.RequiredExtents("shift", op.shift, 0);
}
template <typename Fields>
void VisitFields(Opaque& op, Fields& fields) {
  fields.Text("kind", op.kind);
  fields.Required("channels", op.channels);
  fields.ImageExtents("extents", op.extents, op.spatial_rank);
  fields.Optional("channel_parts", op.channel_parts);
  fields.Optional("rows", op.rows);
  fields.Optional("columns", op.columns);
  fields.Optional("sums", op.sums);
  fields.Optional("operations", op.operations);
}
template <typename Fields>
void VisitFields(GroupNormalization& op, Fields& fields) {
  fields.Optional("groups", op.groups);
  fields.Optional("by_position", op.by_position);
  fields.Optional("scale_and_shift", op.scale_and_shift);
}
template <typename Fields>
void VisitFields(Concat& op, Fields& fields) {
  fields.OptionalChoice("axis", op.axis, kConcatAxisNames);
}
// The operators below have no members.
template <typename Fields>
void VisitFields(Add&, Fields&) {}
template <typename Fields>
void VisitFields(Multiply&, Fields&) {}
template <typename Fields>
void VisitFields(Flatten&, Fields&) {}
template <typename Fields>
void VisitFields(Softmax&, Fields&) {}
template <typename Fields>
void VisitFields(CrossEntropy&, Fields&) {}
template <typename Fields>
void VisitFields(LogisticLoss&, Fields&) {}

}  // namespace ucudnn::planner
