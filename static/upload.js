/* Handing in files: checked before they travel, sent one by one with measured progress, dropped anywhere on the page. */
(function () {
  'use strict';
  var form = document.getElementById('submit');
  if (!form) return;
  var input = form.querySelector('input[type=file]'), rows = form.querySelector('[data-files]');
  var most = Number(form.dataset.maxBytes), mostFiles = Number(form.dataset.maxFiles), words = rows.dataset;
  var locale = document.documentElement.dataset.locale;  /* app.js has chosen it */
  var files = [];

  function fault(file) {
    if (file.size > most) return words.tooLarge;
    return file.size === 0 ? words.empty : '';
  }
  function say(row, text, bad) {
    var note = row.querySelector('.file-state');
    note.textContent = text;
    note.classList.toggle('error', Boolean(bad));
  }
  function show() {
    rows.replaceChildren.apply(rows, files.map(function (one) {
      var row = document.createElement('li'), name = document.createElement('bdi'), note = document.createElement('span');
      name.textContent = one.file.name;
      note.className = 'file-state';
      row.append(name, note);
      one.row = row;
      say(row, one.fault || size(one.file.size), one.fault);
      return row;
    }));
    rows.hidden = !files.length || (files.length === 1 && !files[0].fault);
    var wrong = files.find(function (one) { return one.fault; });
    input.setCustomValidity(files.length > mostFiles ? words.tooMany : wrong ? wrong.fault : '');
    if (files.length > mostFiles) say(rows.lastElementChild, words.tooMany, true);
  }
  function size(bytes) {
    return bytes >= 1048576 ? (bytes / 1048576).toLocaleString(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + ' MB' : Math.max(1, Math.round(bytes / 1024)) + ' kB';
  }
  function choose() {
    files = Array.prototype.map.call(input.files, function (file) { return { file: file, fault: fault(file) }; });
    show();
  }
  input.addEventListener('change', choose);

  /* A drag of files over the page shows where they may be let go: anywhere. */
  function carriesFiles(event) { return event.dataTransfer && Array.prototype.indexOf.call(event.dataTransfer.types, 'Files') >= 0; }
  var drop = form.querySelector('[data-drop]');
  ['dragenter', 'dragover'].forEach(function (name) {
    document.addEventListener(name, function (event) {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      drop.classList.add('over');
    });
  });
  document.addEventListener('dragleave', function (event) { if (!event.relatedTarget) drop.classList.remove('over'); });
  document.addEventListener('drop', function (event) {
    drop.classList.remove('over');
    if (!carriesFiles(event)) return;
    event.preventDefault();
    input.files = event.dataTransfer.files;
    choose();
    drop.scrollIntoView({ block: 'nearest' });
  });

  /* The one moment in an answer's sentence, as the reader's clock has it. */
  function inOwnZone(answer) {
    if (!answer.until) return answer.error;
    var at = new Date(answer.until), form = { hour: 'numeric', minute: '2-digit' };
    if (at.toDateString() !== new Date().toDateString()) Object.assign(form, { day: 'numeric', month: 'short' });
    return answer.error.replace(answer.at, at.toLocaleString(locale, form));
  }
  function fieldsFor(one, number) {
    var fields = new FormData(form);
    fields.delete('file');
    fields.append('file', one.file);
    if (files.length > 1) {
      fields.set('title', '');
      fields.set('idempotency_key', fields.get('idempotency_key') + '-' + number);
    }
    return fields;
  }
  function send(one, number, ended) {
    var request = new XMLHttpRequest(), bar = document.createElement('progress');
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute('aria-label', one.file.name);
    say(one.row, '');
    one.row.append(bar);
    rows.hidden = false;
    request.open('POST', form.action);
    request.setRequestHeader('Accept', 'application/json');
    request.upload.addEventListener('progress', function (event) {
      if (!event.lengthComputable) return;
      bar.value = event.loaded / event.total;
      say(one.row, Math.floor(100 * event.loaded / event.total) + ' %');
    });
    request.addEventListener('loadend', function () {
      bar.remove();
      var answer = null;
      try { answer = JSON.parse(request.responseText); } catch (error) { /* a page, or nothing */ }
      if (answer && answer.location) {
        one.location = answer.location;
        var link = document.createElement('a');
        link.href = answer.location;
        link.textContent = words.handedIn;
        say(one.row, '');
        one.row.querySelector('.file-state').append(link);
      } else {
        one.fault = answer && answer.error ? inOwnZone(answer) : words.notSent;
        say(one.row, one.fault, true);
        one.asPage = Boolean(answer && answer.form_too_old);
      }
      ended();
    });
    request.send(fieldsFor(one, number));
  }
  function sendFrom(number) {
    var one = files[number];
    if (!one) return finish();
    if (one.location) return sendFrom(number + 1);
    send(one, number, function () {
      if (one.asPage) form.submit(); /* the answer is this page again, with what was typed and a new proof of origin */
      else sendFrom(number + 1);
    });
  }
  function finish() {
    var failed = files.filter(function (one) { return !one.location; });
    if (!failed.length) {
      if (files.length === 1) return window.location.assign(files[0].location);
      /* The list is on this very page, where an address that differs in its fragment alone would load nothing. */
      form.reset();
      history.replaceState(null, '', form.dataset.afterSeveral);
      return window.location.reload();
    }
    delete form.dataset.sent;
    form.querySelectorAll('button').forEach(function (button) { button.removeAttribute('aria-disabled'); });
  }
  form.addEventListener('submit', function (event) {
    if (!files.length || form.elements.text.value.trim() || form.dataset.sent) return;
    event.preventDefault();
    form.dataset.sent = 'yes';
    form.querySelectorAll('button').forEach(function (button) { button.setAttribute('aria-disabled', 'true'); });
    sendFrom(0);
  });
  window.addEventListener('pageshow', function (event) { if (event.persisted) { input.value = ''; choose(); } });
})();
