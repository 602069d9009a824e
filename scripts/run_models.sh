#!/bin/sh
# The main job: plans and runs real models. The built-in topologies replace models that cannot be fetched.
set -eu
cd "$(dirname "$0")/.."

if scripts/fetch_models.sh; then
  for model in blazeface_back blazeface_front speech_embedding; do
    echo
    build/bin/berth run build/models/$model.onnx $([ $model != speech_embedding ] || echo --dim unk__314=1)
  done
else
  echo "run: the real models are not here; the built-in topologies (seeded random weights) take their place" >&2
  for model in mobilenet resnet50 transformer; do
    echo
    build/bin/berth run builtin:$model
  done
fi
