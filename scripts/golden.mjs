// Records the golden outputs of tests/model/golden: the results of ONNX Runtime for the models that
// scripts/fetch_models.sh fetches, on the fixed pseudo-random input that `berth run` uses by default.
//
//   npm install --no-save --ignore-scripts onnxruntime-node@1.30.0      (about 290 MB)
//   scripts/fetch_models.sh --all
//   node scripts/golden.mjs [build/models] [tests/model/golden]
import {createRequire} from 'node:module';
import {mkdirSync, writeFileSync} from 'node:fs';
import {resolve} from 'node:path';

import {feedsOf, models} from './models.mjs';

const require = createRequire(resolve('package.json'));
const ort = require('onnxruntime-node');

function npy(dims, data) {
  const tuple = dims.length === 1 ? `(${dims[0]},)` : `(${dims.join(', ')})`;
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': ${tuple}, }`;
  header = header.padEnd(Math.ceil((10 + header.length + 1) / 64) * 64 - 11) + '\n';
  const prefix = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  return Buffer.concat([prefix, Buffer.from(header, 'latin1'), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]);
}

const [source = 'build/models', target = 'tests/model/golden'] = process.argv.slice(2);
for (const {file, dims, every = 1} of models) {
  const session = await ort.InferenceSession.create(`${source}/${file}`, {executionProviders: ['cpu']});
  const feeds = feedsOf(ort, session, dims);
  const outputs = await session.run(feeds);
  const folder = `${target}/${file.replace('.onnx', '')}`;
  mkdirSync(folder, {recursive: true});
  for (const name of session.outputNames) {
    const {dims: shape, data} = outputs[name];
    const kept = every === 1 ? data : data.filter((_, i) => i % every === 0);
    writeFileSync(`${folder}/${name.replace(/[\/\\:]/g, '_')}.npy`, npy(every === 1 ? shape : [kept.length], kept));
    console.log(`${file}: ${name} ${shape.join('x')}`);
  }
}
