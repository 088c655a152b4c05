// A FileDescriptorSet of the order that client.js has as text, made with the descriptors that come with protobufjs.
'use strict';

const descriptor = require('protobufjs/ext/descriptor');

const STRING = 9;
const field = (name, number, type, more = {}) => ({ name, number, type, label: 1, ...more });

exports.of = () => {
  const entry = {
    name: 'NotesEntry',
    field: [field('key', 1, STRING), field('value', 2, STRING)],
    options: { mapEntry: true },
  };
  const order = {
    name: 'Order',
    field: [
      field('id', 1, 3),
      field('lines', 2, 11, { label: 3, typeName: '.shop.Line' }),
      field('notes', 3, 11, { label: 3, typeName: '.shop.Order.NotesEntry' }),
    ],
    nestedType: [entry],
  };
  const line = { name: 'Line', field: [field('sku', 1, STRING), field('price', 2, 1)] };
  const file = { name: 'order.proto', package: 'shop', syntax: 'proto3', messageType: [order, line] };
  const set = descriptor.FileDescriptorSet.fromObject({ file: [file] });
  return Buffer.from(descriptor.FileDescriptorSet.encode(set).finish());
};

