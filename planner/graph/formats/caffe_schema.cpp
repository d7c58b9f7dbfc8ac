#include "planner/graph/formats/caffe_schema.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "planner/graph/formats/caffe_fields.h"

namespace ucudnn::planner {
namespace {

enum class Use {
  kRead,      // an importer reads the field
  kHarmless,  // the field changes neither a shape, a parameter nor the cost of a pass
  kRefused
};
using enum Use;

struct Fields {
  const char* message;
  const char* names;  // separated by spaces
  // One of: whole; count (a whole number, 0 or more); real; flag; text; the words of an
  // enumeration, from number 0 on; the name of a message; any (not checked). A trailing * permits
  // repetition.
  const char* type;
  Use use;
  const char* why = "";  // the reason why the fields are harmless, or the text of the error
};

constexpr const char* kEngines = "DEFAULT|CAFFE|CUDNN";
constexpr const char* kStart = "says how parameters begin";
constexpr const char* kEngine = "chooses among codes of one result";
constexpr const char* kPixels = "changes pixels, not how many there are";
constexpr const char* kSource = "says where and in which order images lie";
constexpr const char* kLoss = "belongs to a loss, which is left out";
constexpr const char* kLabel = "belongs to labels, which are left out";
constexpr const char* kFunction = "chooses a function of one number";
constexpr const char* kConstant = "is a constant of a formula";
constexpr const char* kUnknown = "is of a layer type that is refused itself";
constexpr const char* kNoWeights =
    "weights in a text are not read; expected a network without them";

constexpr Fields kSchema[] = {
    {"NetParameter", "name", "text", kRead},
    {"NetParameter", "input", "text*", kRead},
    {"NetParameter", "input_shape", "BlobShape*", kRead},
    {"NetParameter", "input_dim", "whole*", kRead},
    {"NetParameter", "state", "NetState", kRead},
    {"NetParameter", "layer layers", "any*", kRead},
    {"NetParameter", "force_backward", "flag", kHarmless,
     "every layer is counted with the gradient of its input"},
    {"NetParameter", "debug_info", "flag", kHarmless, "writes to the log"},
    {"BlobShape", "dim", "whole*", kRead},
    {"NetState", "phase", "TRAIN|TEST", kRead},
    {"NetState", "level", "whole", kRead},
    {"NetState", "stage", "text*", kRead},
    {"NetStateRule", "phase", "TRAIN|TEST", kRead},
    {"NetStateRule", "min_level max_level", "whole", kRead},
    {"NetStateRule", "stage not_stage", "text*", kRead},
    {"ParamSpec", "name", "text", kRead},
    {"ParamSpec", "share_mode", "STRICT|PERMISSIVE", kRead},
    {"ParamSpec", "lr_mult decay_mult", "real", kRead},
    {"FillerParameter", "type", "text", kHarmless, kStart},
    {"FillerParameter", "value min max mean std", "real", kHarmless, kStart},
    {"FillerParameter", "sparse", "whole", kHarmless, kStart},
    {"FillerParameter", "variance_norm", "FAN_IN|FAN_OUT|AVERAGE", kHarmless, kStart},

    {"LayerParameter", "name type", "text", kRead},
    {"LayerParameter", "bottom top", "text*", kRead},
    {"LayerParameter", "phase", "TRAIN|TEST", kRead},
    {"LayerParameter", "loss_weight", "real*", kRead},
    {"LayerParameter", "param", "ParamSpec*", kRead},
    {"LayerParameter", "blobs", "any*", kRefused, kNoWeights},
    {"LayerParameter", "propagate_down", "flag*", kRead},
    {"LayerParameter", "include exclude", "NetStateRule*", kRead},
    {"LayerParameter", "bn_param", "BNParameter", kRead},
    {"LayerParameter", "clip_param", "ClipParameter", kHarmless, kFunction},
    {"LayerParameter", "batch_norm_param", "BatchNormParameter", kRead},
    {"LayerParameter", "bias_param", "BiasParameter", kRead},
    {"LayerParameter", "crop_param", "CropParameter", kRead},
    {"LayerParameter", "elu_param", "ELUParameter", kHarmless, kFunction},
    {"LayerParameter", "flatten_param", "FlattenParameter", kRead},
    {"LayerParameter", "input_param", "InputParameter", kRead},
    {"LayerParameter", "log_param", "LogParameter", kHarmless, kFunction},
    {"LayerParameter", "prelu_param", "PReLUParameter", kRead},
    {"LayerParameter", "reduction_param", "ReductionParameter", kRead},
    {"LayerParameter", "reshape_param", "ReshapeParameter", kRead},
    {"LayerParameter", "scale_param", "ScaleParameter", kRead},
    {"LayerParameter", "swish_param", "SwishParameter", kHarmless, kFunction},
    {"LayerParameter", "tile_param", "TileParameter", kRead},
    // Fields of SSD's fork.
    {"LayerParameter", "norm_param", "NormalizeParameter", kRead},
    {"LayerParameter", "permute_param", "PermuteParameter", kRead},
    {"LayerParameter", "annotated_data_param prior_box_param", "any", kHarmless, kLabel},
    {"LayerParameter", "multibox_loss_param", "any", kHarmless, kLoss},
    {"LayerParameter", "detection_output_param detection_evaluate_param", "any", kHarmless,
     "belongs to detections, which are left out"},
    {"LayerParameter",
     "embed_param parameter_param python_param recurrent_param spp_param hdf5_output_param", "any",
     kHarmless, kUnknown},

    {"V1LayerParameter", "name", "text", kRead},
    {"V1LayerParameter", "type", "text", kRead},
    {"V1LayerParameter", "bottom top param", "text*", kRead},
    {"V1LayerParameter", "include exclude", "NetStateRule*", kRead},
    {"V1LayerParameter", "blobs", "any*", kRefused, kNoWeights},
    {"V1LayerParameter", "blob_share_mode", "STRICT|PERMISSIVE*", kRead},
    {"V1LayerParameter", "blobs_lr weight_decay loss_weight", "real*", kRead},
    {"V1LayerParameter", "hdf5_output_param", "any", kHarmless, kUnknown},

    // Fields that layers of both syntaxes may have.
    {"*LayerParameter", "transform_param", "TransformationParameter", kRead},
    {"*LayerParameter", "loss_param", "LossParameter", kHarmless, kLoss},
    {"*LayerParameter", "accuracy_param", "AccuracyParameter", kHarmless, kLabel},
    {"*LayerParameter", "argmax_param", "ArgMaxParameter", kRead},
    {"*LayerParameter", "concat_param", "ConcatParameter", kRead},
    {"*LayerParameter", "contrastive_loss_param", "ContrastiveLossParameter", kHarmless, kLoss},
    {"*LayerParameter", "convolution_param", "ConvolutionParameter", kRead},
    {"*LayerParameter", "data_param", "DataParameter", kRead},
    {"*LayerParameter", "dropout_param", "DropoutParameter", kRead},
    {"*LayerParameter", "dummy_data_param", "DummyDataParameter", kRead},
    {"*LayerParameter", "eltwise_param", "EltwiseParameter", kRead},
    {"*LayerParameter", "exp_param", "ExpParameter", kHarmless, kFunction},
    {"*LayerParameter", "hdf5_data_param", "HDF5DataParameter", kRead},
    {"*LayerParameter", "hinge_loss_param", "HingeLossParameter", kHarmless, kLoss},
    {"*LayerParameter", "image_data_param", "ImageDataParameter", kRead},
    {"*LayerParameter", "infogain_loss_param", "InfogainLossParameter", kHarmless, kLoss},
    {"*LayerParameter", "inner_product_param", "InnerProductParameter", kRead},
    {"*LayerParameter", "lrn_param", "LRNParameter", kRead},
    {"*LayerParameter", "memory_data_param", "MemoryDataParameter", kRead},
    {"*LayerParameter", "mvn_param", "MVNParameter", kRead},
    {"*LayerParameter", "pooling_param", "PoolingParameter", kRead},
    {"*LayerParameter", "power_param", "PowerParameter", kHarmless, kFunction},
    {"*LayerParameter", "relu_param", "ReLUParameter", kRead},
    {"*LayerParameter", "sigmoid_param", "SigmoidParameter", kHarmless, kEngine},
    {"*LayerParameter", "slice_param", "SliceParameter", kRead},
    {"*LayerParameter", "softmax_param", "SoftmaxParameter", kRead},
    {"*LayerParameter", "tanh_param", "TanHParameter", kHarmless, kEngine},
    {"*LayerParameter", "threshold_param", "ThresholdParameter", kHarmless, kFunction},
    {"*LayerParameter", "window_data_param", "WindowDataParameter", kRead},

    {"TransformationParameter", "crop_size", "count", kRead},
    {"TransformationParameter", "force_color force_gray", "flag", kRead},
    {"TransformationParameter", "scale", "real", kHarmless, kPixels},
    {"TransformationParameter", "mirror", "flag", kHarmless, kPixels},
    {"TransformationParameter", "mean_file", "text", kHarmless, kPixels},
    {"TransformationParameter", "mean_value", "real*", kHarmless, kPixels},
    // A field of SSD's fork.
    {"TransformationParameter", "resize_param", "ResizeParameter", kRead},
    {"TransformationParameter", "noise_param distort_param expand_param emit_constraint", "any",
     kHarmless, kPixels},
    {"ResizeParameter", "height width", "count", kRead},
    {"ResizeParameter", "prob resize_mode interp_mode pad_mode pad_value height_scale width_scale",
     "any*", kHarmless, kPixels},
    {"LossParameter", "ignore_label", "whole", kHarmless, kLoss},
    {"LossParameter", "normalization", "FULL|VALID|BATCH_SIZE|NONE", kHarmless, kLoss},
    {"LossParameter", "normalize weight_by_label_freqs", "flag", kHarmless, kLoss},
    {"LossParameter", "class_weighting", "real*", kHarmless, kLoss},
    {"AccuracyParameter", "top_k", "count", kHarmless, kLabel},
    {"AccuracyParameter", "axis ignore_label", "whole", kHarmless, kLabel},
    {"ArgMaxParameter", "out_max_val", "flag", kRead},
    {"ArgMaxParameter", "top_k", "count", kRead},
    {"ArgMaxParameter", "axis", "whole", kRead},
    {"BatchNormParameter", "use_global_stats", "flag", kRead},
    {"BatchNormParameter", "moving_average_fraction eps", "real", kHarmless, kConstant},
    {"BNParameter", "frozen", "flag", kRead},  // BNParameter comes from PSPNet's and SegNet's forks
    {"BNParameter", "bn_mode", "LEARN|INFERENCE", kRead},
    {"BNParameter", "slope_filler scale_filler bias_filler shift_filler", "FillerParameter",
     kHarmless, kStart},
    {"BNParameter", "eps momentum std_momentum bn_momentum var_eps", "real", kHarmless, kConstant},
    {"BNParameter", "engine", kEngines, kHarmless, kEngine},
    {"BiasParameter", "axis num_axes", "whole", kRead},
    {"BiasParameter", "filler", "FillerParameter", kHarmless, kStart},
    {"ClipParameter", "min max", "real", kHarmless, kFunction},
    {"ConcatParameter", "axis", "whole", kRead},
    {"ConcatParameter", "concat_dim", "count", kRead},
    {"ContrastiveLossParameter", "margin", "real", kHarmless, kLoss},
    {"ContrastiveLossParameter", "legacy_version", "flag", kHarmless, kLoss},
    {"ConvolutionParameter", "num_output group", "count", kRead},
    {"ConvolutionParameter", "bias_term", "flag", kRead},
    {"ConvolutionParameter", "kernel_size stride pad dilation", "count*", kRead},
    {"ConvolutionParameter", "kernel_h kernel_w stride_h stride_w pad_h pad_w", "count", kRead},
    // Hole, hole_h and hole_w are DeepLab's fields.
    {"ConvolutionParameter", "hole", "count*", kRead},
    {"ConvolutionParameter", "hole_h hole_w dilation_h dilation_w", "count", kRead},
    {"ConvolutionParameter", "axis", "whole", kRead},
    {"ConvolutionParameter", "weight_filler bias_filler", "FillerParameter", kHarmless, kStart},
    {"ConvolutionParameter", "engine", kEngines, kHarmless, kEngine},
    {"ConvolutionParameter", "force_nd_im2col", "flag", kHarmless, kEngine},
    {"CropParameter", "axis", "whole", kRead},
    {"CropParameter", "offset", "count*", kRead},
    {"DataParameter", "batch_size crop_size", "count", kRead},
    {"DataParameter", "source", "text", kHarmless, kSource},
    {"DataParameter", "rand_skip prefetch", "count", kHarmless, kSource},
    {"DataParameter", "backend", "LEVELDB|LMDB", kHarmless, kSource},
    {"DataParameter", "scale", "real", kHarmless, kPixels},
    {"DataParameter", "mean_file", "text", kHarmless, kPixels},
    {"DataParameter", "mirror", "flag", kHarmless, kPixels},
    {"DataParameter", "force_encoded_color", "flag", kHarmless, "decodes to the three channels"},
    {"DropoutParameter", "dropout_ratio", "real", kRead},
    {"DropoutParameter", "scale_train", "flag", kHarmless, kConstant},
    {"DropoutParameter", "sample_weights_test", "flag", kHarmless, "is of the testing phase"},
    {"DummyDataParameter", "shape", "BlobShape*", kRead},
    {"DummyDataParameter", "num channels height width", "count*", kRead},
    {"DummyDataParameter", "data_filler", "FillerParameter*", kHarmless, kPixels},
    {"EltwiseParameter", "operation", "PROD|SUM|MAX", kRead},
    {"EltwiseParameter", "coeff", "real*", kRead},
    {"EltwiseParameter", "stable_prod_grad", "flag", kHarmless, kEngine},
    {"ELUParameter", "alpha", "real", kHarmless, kFunction},
    {"ExpParameter", "base scale shift", "real", kHarmless, kFunction},
    {"FlattenParameter", "axis end_axis", "whole", kRead},
    {"HDF5DataParameter", "batch_size", "count", kRead},
    {"HDF5DataParameter", "source", "text", kHarmless, kSource},
    {"HDF5DataParameter", "shuffle", "flag", kHarmless, kSource},
    {"HingeLossParameter", "norm", "|L1|L2", kHarmless, kLoss},
    {"ImageDataParameter", "batch_size new_height new_width crop_size", "count", kRead},
    {"ImageDataParameter", "is_color", "flag", kRead},
    {"ImageDataParameter", "source root_folder", "text", kHarmless, kSource},
    {"ImageDataParameter", "rand_skip", "count", kHarmless, kSource},
    {"ImageDataParameter", "shuffle", "flag", kHarmless, kSource},
    {"ImageDataParameter", "scale", "real", kHarmless, kPixels},
    {"ImageDataParameter", "mean_file", "text", kHarmless, kPixels},
    {"ImageDataParameter", "mirror", "flag", kHarmless, kPixels},
    {"InfogainLossParameter", "source", "text", kHarmless, kLoss},
    {"InfogainLossParameter", "axis", "whole", kHarmless, kLoss},
    {"InnerProductParameter", "num_output", "count", kRead},
    {"InnerProductParameter", "bias_term transpose", "flag", kRead},
    {"InnerProductParameter", "axis", "whole", kRead},
    {"InnerProductParameter", "weight_filler bias_filler", "FillerParameter", kHarmless, kStart},
    {"InputParameter", "shape", "BlobShape*", kRead},
    {"LogParameter", "base scale shift", "real", kHarmless, kFunction},
    {"LRNParameter", "local_size", "count", kRead},
    {"LRNParameter", "alpha beta k", "real", kRead},
    {"LRNParameter", "norm_region", "ACROSS_CHANNELS|WITHIN_CHANNEL", kRead},
    {"LRNParameter", "engine", kEngines, kHarmless, kEngine},
    {"MemoryDataParameter", "batch_size channels height width", "count", kRead},
    {"MVNParameter", "across_channels", "flag", kRead},
    {"MVNParameter", "normalize_variance", "flag", kHarmless, kConstant},
    {"MVNParameter", "eps", "real", kHarmless, kConstant},
    {"NormalizeParameter", "across_spatial channel_shared", "flag", kRead},
    {"NormalizeParameter", "scale_filler", "FillerParameter", kHarmless, kStart},
    {"NormalizeParameter", "eps", "real", kHarmless, kConstant},
    {"PermuteParameter", "order", "count*", kRead},
    {"PoolingParameter", "pool", "MAX|AVE|STOCHASTIC", kRead},
    // Forks for 3-D images permit several values in these fields.
    {"PoolingParameter", "kernel_size stride pad", "count*", kRead},
    {"PoolingParameter", "kernel_h kernel_w stride_h stride_w pad_h pad_w", "count", kRead},
    {"PoolingParameter", "global_pooling", "flag", kRead},
    {"PoolingParameter", "round_mode", "CEIL|FLOOR", kRead},
    // The name of round_mode in some forks.
    {"PoolingParameter", "ceil_mode", "flag", kRead},
    {"PoolingParameter", "engine", kEngines, kHarmless, kEngine},
    {"PowerParameter", "power scale shift", "real", kHarmless, kFunction},
    {"PReLUParameter", "channel_shared", "flag", kRead},
    {"PReLUParameter", "filler", "FillerParameter", kHarmless, kStart},
    {"ReductionParameter", "axis", "whole", kRead},
    {"ReductionParameter", "operation", "|SUM|ASUM|SUMSQ|MEAN", kHarmless, kConstant},
    {"ReductionParameter", "coeff", "real", kHarmless, kConstant},
    {"ReLUParameter", "negative_slope", "real", kRead},
    {"ReLUParameter", "engine", kEngines, kHarmless, kEngine},
    {"ReshapeParameter", "shape", "BlobShape", kRead},
    {"ReshapeParameter", "axis num_axes", "whole", kRead},
    {"ScaleParameter", "axis num_axes", "whole", kRead},
    {"ScaleParameter", "bias_term", "flag", kRead},
    {"ScaleParameter", "filler bias_filler", "FillerParameter", kHarmless, kStart},
    {"SigmoidParameter", "engine", kEngines, kHarmless, kEngine},
    {"SliceParameter", "axis", "whole", kRead},
    {"SliceParameter", "slice_dim", "count", kRead},
    {"SliceParameter", "slice_point", "count*", kRead},
    {"SoftmaxParameter", "axis", "whole", kRead},
    {"SoftmaxParameter", "engine", kEngines, kHarmless, kEngine},
    {"SwishParameter", "beta", "real", kHarmless, kFunction},
    {"TanHParameter", "engine", kEngines, kHarmless, kEngine},
    {"ThresholdParameter", "threshold", "real", kHarmless, kFunction},
    {"TileParameter", "axis tiles", "whole", kRead},
    {"WindowDataParameter", "batch_size crop_size", "count", kRead},
    {"WindowDataParameter", "source root_folder crop_mode", "text", kHarmless, kSource},
    {"WindowDataParameter", "cache_images", "flag", kHarmless, kSource},
    {"WindowDataParameter", "context_pad", "count", kHarmless, kPixels},
    {"WindowDataParameter", "scale fg_threshold bg_threshold fg_fraction", "real", kHarmless,
     kPixels},
    {"WindowDataParameter", "mean_file", "text", kHarmless, kPixels},
    {"WindowDataParameter", "mirror", "flag", kHarmless, kPixels},
};

using Messages = std::map<std::string, std::map<std::string, const Fields*>>;

const Messages& Schema() {
  static const auto* const schema = [] {
    auto* messages = new Messages;
    for (const Fields& fields : kSchema) {
      const std::string message = fields.message;
      for (const std::string& name : Split(fields.names, ' ')) {
        if (!message.starts_with('*')) (*messages)[message][name] = &fields;
        if (!message.starts_with('*')) continue;
        for (const char* const syntax : {"", "V1"}) {
          (*messages)[syntax + message.substr(1)][name] = &fields;
        }
      }
    }
    return messages;
  }();
  return *schema;
}

Status Refuse(const TextField& field, const std::string& what) {
  return Status::Error("line " + std::to_string(field.line) + ": " + field.name + ": " + what);
}

// Returns the message's name in quotation marks, such as "convolution_param"; "a network" for the
// whole file.
std::string ShownMessage(const TextField& message, const std::string& type) {
  return type == "NetParameter" ? "a network" : Quoted(message.name);
}

// Returns a text that says which scalar `type` expects; empty if `field` is such a scalar.
std::string ExpectedScalar(const std::string& type, TextField& field) {
  if (type == "text") return "";
  if (type == "whole") return WholeOf(field.value) ? "" : "a whole number of 32 bits";
  if (type == "count") {
    return WholeOf(field.value).value_or(-1) >= 0 ? "" : "a whole number from 0 to 2147483647";
  }
  if (type == "real") return RealOf(field.value) ? "" : "a number";
  if (type == "flag") return FlagOf(field.value) ? "" : "true or false";
  const std::vector<std::string> words = Split(type, '|');
  for (size_t number = 0; number < words.size(); ++number) {
    if (field.value == std::to_string(number) && !words[number].empty()) {
      field.value = words[number];
    }
    if (field.value == words[number] && !field.value.empty()) return "";
  }
  return "one of " + Join(words, " ");
}

}  // namespace

Status CheckCaffeMessage(const std::string& type, TextField& message) {
  const auto& known = Schema().at(type);
  std::map<std::string, int> times;
  for (TextField& field : message.fields) {
    const auto found = known.find(field.name);
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const auto& [name, fields] : known) names.push_back(name);
      const std::string nearest = NearestName(field.name, names);
      return Status::Error("line " + std::to_string(field.line) + ": " +
                           ShownMessage(message, type) + " has no field " + Quoted(field.name) +
                           (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
    }
    const Fields& fields = *found->second;
    if (fields.use == kRefused) return Refuse(field, fields.why);
    std::string value = fields.type;
    const bool repeated = value.ends_with('*');
    if (repeated) value.pop_back();
    if (!repeated && ++times[field.name] > 1) return Refuse(field, "twice; expected it once");
    if (value == "any") continue;
    const bool is_message = Schema().contains(value);
    if (is_message != field.is_message) {
      return Refuse(field, field.is_message ? "a message; expected a value"
                                            : Quoted(field.value) + "; expected a message");
    }
    if (is_message) {
      UCUDNN_RETURN_IF_ERROR(CheckCaffeMessage(value, field));
      continue;
    }
    const std::string expected = ExpectedScalar(value, field);
    if (!expected.empty()) return Refuse(field, Quoted(field.value) + "; expected " + expected);
  }
  return Status::Ok();
}

}  // namespace ucudnn::planner
