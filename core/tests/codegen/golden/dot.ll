; r_37_29_41: dot(2, 0, 0), stage(1, 2, 32, 16)
define internal void @"r_37_29_41.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2, ptr noalias %scratch) #0 {
entry:
  %local0 = getelementptr inbounds i8, ptr %scratch, i64 0
  %acc0_0_0 = alloca <16 x float>
  %acc0_0_1 = alloca <16 x float>
  %acc0_1_0 = alloca <16 x float>
  %acc0_1_1 = alloca <16 x float>
  %mul1 = mul nsw i64 0, 16
  %mul2 = mul nsw i64 1, 16
  %first3 = insertelement <16 x i64> poison, i64 %mul1, i64 0
  %splat4 = shufflevector <16 x i64> %first3, <16 x i64> poison, <16 x i32> zeroinitializer
  %add5 = add nsw <16 x i64> %splat4, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %first6 = insertelement <16 x i64> poison, i64 %mul2, i64 0
  %splat7 = shufflevector <16 x i64> %first6, <16 x i64> poison, <16 x i32> zeroinitializer
  %add8 = add nsw <16 x i64> %splat7, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt9 = icmp slt <16 x i64> %add5, splat (i64 29)
  %cmplt10 = icmp slt <16 x i64> %add8, splat (i64 29)
  %mul11 = mul nsw i64 0, 16
  %mul12 = mul nsw i64 1, 16
  %first13 = insertelement <16 x i64> poison, i64 %mul11, i64 0
  %splat14 = shufflevector <16 x i64> %first13, <16 x i64> poison, <16 x i32> zeroinitializer
  %add15 = add nsw <16 x i64> %splat14, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %first16 = insertelement <16 x i64> poison, i64 %mul12, i64 0
  %splat17 = shufflevector <16 x i64> %first16, <16 x i64> poison, <16 x i32> zeroinitializer
  %add18 = add nsw <16 x i64> %splat17, <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10, i64 11, i64 12, i64 13, i64 14, i64 15>
  %cmplt19 = icmp slt <16 x i64> %add15, splat (i64 29)
  %cmplt20 = icmp slt <16 x i64> %add18, splat (i64 29)
  br label %loop7
loop7:
  %r7 = phi i64 [ 0, %entry ], [ %next7, %latch7 ]
  %mul21 = mul nsw i64 %r7, 32
  %add22 = add nsw i64 %mul11, %mul21
  %add23 = add nsw i64 %mul12, %mul21
  %mul24 = mul nsw i64 %r7, 58
  %add25 = add nsw i64 %mul11, %mul24
  %add26 = add nsw i64 %mul12, %mul24
  %p27 = getelementptr i16, ptr %data2, i64 %add25
  %call28 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p27, i32 2, <16 x i1> %cmplt19, <16 x i16> zeroinitializer)
  %p29 = getelementptr i16, ptr %data2, i64 %add26
  %call30 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p29, i32 2, <16 x i1> %cmplt20, <16 x i16> zeroinitializer)
  %cast31 = zext <16 x i16> %call28 to <16 x i32>
  %cast32 = zext <16 x i16> %call30 to <16 x i32>
  %add33 = add nsw i64 %add25, 29
  %add34 = add nsw i64 %add26, 29
  %p35 = getelementptr i16, ptr %data2, i64 %add33
  %call36 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p35, i32 2, <16 x i1> %cmplt19, <16 x i16> zeroinitializer)
  %p37 = getelementptr i16, ptr %data2, i64 %add34
  %call38 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p37, i32 2, <16 x i1> %cmplt20, <16 x i16> zeroinitializer)
  %cast39 = zext <16 x i16> %call36 to <16 x i32>
  %cast40 = zext <16 x i16> %call38 to <16 x i32>
  %shl41 = shl <16 x i32> %cast39, splat (i32 16)
  %shl42 = shl <16 x i32> %cast40, splat (i32 16)
  %or43 = or <16 x i32> %cast31, %shl41
  %or44 = or <16 x i32> %cast32, %shl42
  %p45 = getelementptr inbounds i32, ptr %local0, i64 %add22
  store <16 x i32> %or43, ptr %p45, align 4
  %p46 = getelementptr inbounds i32, ptr %local0, i64 %add23
  store <16 x i32> %or44, ptr %p46, align 4
  br label %latch7
latch7:
  %next7 = add nuw nsw i64 %r7, 1
  %more47 = icmp slt i64 %next7, 20
  br i1 %more47, label %loop7, label %exit7
exit7:
  %add48 = add nsw i64 %mul1, 1160
  %add49 = add nsw i64 %mul2, 1160
  %p50 = getelementptr i16, ptr %data2, i64 %add48
  %call51 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p50, i32 2, <16 x i1> %cmplt9, <16 x i16> zeroinitializer)
  %p52 = getelementptr i16, ptr %data2, i64 %add49
  %call53 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr %p52, i32 2, <16 x i1> %cmplt10, <16 x i16> zeroinitializer)
  %cast54 = zext <16 x i16> %call51 to <16 x i32>
  %bit55 = shl <16 x i32> %cast54, splat (i32 16)
  %cast56 = bitcast <16 x i32> %bit55 to <16 x float>
  %cast57 = zext <16 x i16> %call53 to <16 x i32>
  %bit58 = shl <16 x i32> %cast57, splat (i32 16)
  %cast59 = bitcast <16 x i32> %bit58 to <16 x float>
  %mul60 = mul nsw i64 0, 29
  %mul61 = mul nsw i64 1, 29
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %exit7 ], [ %next0, %latch0 ]
  %mul62 = mul nsw i64 %r0, 2
  %add63 = add nsw i64 %mul62, 1
  %cmplt64 = icmp slt i64 %mul62, 37
  %cmplt65 = icmp slt i64 %add63, 37
  %first66 = insertelement <16 x i1> poison, i1 %cmplt64, i64 0
  %splat67 = shufflevector <16 x i1> %first66, <16 x i1> poison, <16 x i32> zeroinitializer
  %and68 = and <16 x i1> %splat67, %cmplt9
  %and69 = and <16 x i1> %splat67, %cmplt10
  %first70 = insertelement <16 x i1> poison, i1 %cmplt65, i64 0
  %splat71 = shufflevector <16 x i1> %first70, <16 x i1> poison, <16 x i32> zeroinitializer
  %and72 = and <16 x i1> %splat71, %cmplt9
  %and73 = and <16 x i1> %splat71, %cmplt10
  store <16 x float> splat (float 0.0), ptr %acc0_0_0
  store <16 x float> splat (float 0.0), ptr %acc0_0_1
  store <16 x float> splat (float 0.0), ptr %acc0_1_0
  store <16 x float> splat (float 0.0), ptr %acc0_1_1
  %cmplt74 = icmp slt i64 36, %mul62
  %cmplt75 = icmp slt i64 36, %add63
  %where76 = select i1 %cmplt74, i64 36, i64 %mul62
  %where77 = select i1 %cmplt75, i64 36, i64 %add63
  %mul78 = mul nsw i64 %where76, 41
  %mul79 = mul nsw i64 %where77, 41
  br label %loop4
loop4:
  %r4 = phi i64 [ 0, %loop0 ], [ %next4, %latch4 ]
  %mul80 = mul nsw i64 %r4, 2
  %add81 = add nsw i64 %mul78, %mul80
  %add82 = add nsw i64 %mul79, %mul80
  %p83 = getelementptr inbounds i16, ptr %data1, i64 %add81
  %load84 = load i16, ptr %p83, align 2
  %p85 = getelementptr inbounds i16, ptr %data1, i64 %add82
  %load86 = load i16, ptr %p85, align 2
  %cast87 = zext i16 %load84 to i32
  %cast88 = zext i16 %load86 to i32
  %add89 = add nsw i64 %add81, 1
  %add90 = add nsw i64 %add82, 1
  %p91 = getelementptr inbounds i16, ptr %data1, i64 %add89
  %load92 = load i16, ptr %p91, align 2
  %p93 = getelementptr inbounds i16, ptr %data1, i64 %add90
  %load94 = load i16, ptr %p93, align 2
  %cast95 = zext i16 %load92 to i32
  %cast96 = zext i16 %load94 to i32
  %shl97 = shl i32 %cast95, 16
  %shl98 = shl i32 %cast96, 16
  %or99 = or i32 %cast87, %shl97
  %or100 = or i32 %cast88, %shl98
  %mul101 = mul nsw i64 %r4, 32
  %add102 = add nsw i64 %mul101, %mul1
  %add103 = add nsw i64 %mul101, %mul2
  %p104 = getelementptr inbounds i32, ptr %local0, i64 %add102
  %load105 = load <16 x i32>, ptr %p104, align 4
  %p106 = getelementptr inbounds i32, ptr %local0, i64 %add103
  %load107 = load <16 x i32>, ptr %p106, align 4
  %first108 = insertelement <16 x i32> poison, i32 %or99, i64 0
  %splat109 = shufflevector <16 x i32> %first108, <16 x i32> poison, <16 x i32> zeroinitializer
  %old110 = load <16 x float>, ptr %acc0_0_0
  %words111 = bitcast <16 x i32> %splat109 to <32 x bfloat>
  %words112 = bitcast <16 x i32> %load105 to <32 x bfloat>
  %dot113 = call <16 x float> @dot2(<16 x float> %old110, <32 x bfloat> %words111, <32 x bfloat> %words112)
  store <16 x float> %dot113, ptr %acc0_0_0
  %old114 = load <16 x float>, ptr %acc0_0_1
  %words115 = bitcast <16 x i32> %splat109 to <32 x bfloat>
  %words116 = bitcast <16 x i32> %load107 to <32 x bfloat>
  %dot117 = call <16 x float> @dot2(<16 x float> %old114, <32 x bfloat> %words115, <32 x bfloat> %words116)
  store <16 x float> %dot117, ptr %acc0_0_1
  %first118 = insertelement <16 x i32> poison, i32 %or100, i64 0
  %splat119 = shufflevector <16 x i32> %first118, <16 x i32> poison, <16 x i32> zeroinitializer
  %old120 = load <16 x float>, ptr %acc0_1_0
  %words121 = bitcast <16 x i32> %splat119 to <32 x bfloat>
  %words122 = bitcast <16 x i32> %load105 to <32 x bfloat>
  %dot123 = call <16 x float> @dot2(<16 x float> %old120, <32 x bfloat> %words121, <32 x bfloat> %words122)
  store <16 x float> %dot123, ptr %acc0_1_0
  %old124 = load <16 x float>, ptr %acc0_1_1
  %words125 = bitcast <16 x i32> %splat119 to <32 x bfloat>
  %words126 = bitcast <16 x i32> %load107 to <32 x bfloat>
  %dot127 = call <16 x float> @dot2(<16 x float> %old124, <32 x bfloat> %words125, <32 x bfloat> %words126)
  store <16 x float> %dot127, ptr %acc0_1_1
  br label %latch4
latch4:
  %next4 = add nuw nsw i64 %r4, 1
  %more128 = icmp slt i64 %next4, 20
  br i1 %more128, label %loop4, label %exit4
exit4:
  %get129 = load <16 x float>, ptr %acc0_0_0
  %get130 = load <16 x float>, ptr %acc0_0_1
  %get131 = load <16 x float>, ptr %acc0_1_0
  %get132 = load <16 x float>, ptr %acc0_1_1
  %add133 = add nsw i64 %mul78, 40
  %add134 = add nsw i64 %mul79, 40
  %p135 = getelementptr inbounds i16, ptr %data1, i64 %add133
  %load136 = load i16, ptr %p135, align 2
  %p137 = getelementptr inbounds i16, ptr %data1, i64 %add134
  %load138 = load i16, ptr %p137, align 2
  %cast139 = zext i16 %load136 to i32
  %bit140 = shl i32 %cast139, 16
  %cast141 = bitcast i32 %bit140 to float
  %cast142 = zext i16 %load138 to i32
  %bit143 = shl i32 %cast142, 16
  %cast144 = bitcast i32 %bit143 to float
  %first145 = insertelement <16 x float> poison, float %cast141, i64 0
  %splat146 = shufflevector <16 x float> %first145, <16 x float> poison, <16 x i32> zeroinitializer
  %mul147 = fmul <16 x float> %splat146, %cast56
  %mul148 = fmul <16 x float> %splat146, %cast59
  %first149 = insertelement <16 x float> poison, float %cast144, i64 0
  %splat150 = shufflevector <16 x float> %first149, <16 x float> poison, <16 x i32> zeroinitializer
  %mul151 = fmul <16 x float> %splat150, %cast56
  %mul152 = fmul <16 x float> %splat150, %cast59
  %add153 = fadd <16 x float> %get129, %mul147
  %add154 = fadd <16 x float> %get130, %mul148
  %add155 = fadd <16 x float> %get131, %mul151
  %add156 = fadd <16 x float> %get132, %mul152
  %cast157 = bitcast <16 x float> %add153 to <16 x i32>
  %bit158 = or <16 x i32> %cast157, splat (i32 4194304)
  %bit159 = fcmp uno <16 x float> %add153, splat (float 0.0)
  %bit160 = lshr <16 x i32> %cast157, splat (i32 16)
  %bit161 = and <16 x i32> %bit160, splat (i32 1)
  %bit162 = add <16 x i32> %cast157, splat (i32 32767)
  %bit163 = add <16 x i32> %bit162, %bit161
  %cast164 = select <16 x i1> %bit159, <16 x i32> %bit158, <16 x i32> %bit163
  %bit165 = lshr <16 x i32> %cast164, splat (i32 16)
  %cast166 = trunc <16 x i32> %bit165 to <16 x i16>
  %cast167 = bitcast <16 x float> %add154 to <16 x i32>
  %bit168 = or <16 x i32> %cast167, splat (i32 4194304)
  %bit169 = fcmp uno <16 x float> %add154, splat (float 0.0)
  %bit170 = lshr <16 x i32> %cast167, splat (i32 16)
  %bit171 = and <16 x i32> %bit170, splat (i32 1)
  %bit172 = add <16 x i32> %cast167, splat (i32 32767)
  %bit173 = add <16 x i32> %bit172, %bit171
  %cast174 = select <16 x i1> %bit169, <16 x i32> %bit168, <16 x i32> %bit173
  %bit175 = lshr <16 x i32> %cast174, splat (i32 16)
  %cast176 = trunc <16 x i32> %bit175 to <16 x i16>
  %cast177 = bitcast <16 x float> %add155 to <16 x i32>
  %bit178 = or <16 x i32> %cast177, splat (i32 4194304)
  %bit179 = fcmp uno <16 x float> %add155, splat (float 0.0)
  %bit180 = lshr <16 x i32> %cast177, splat (i32 16)
  %bit181 = and <16 x i32> %bit180, splat (i32 1)
  %bit182 = add <16 x i32> %cast177, splat (i32 32767)
  %bit183 = add <16 x i32> %bit182, %bit181
  %cast184 = select <16 x i1> %bit179, <16 x i32> %bit178, <16 x i32> %bit183
  %bit185 = lshr <16 x i32> %cast184, splat (i32 16)
  %cast186 = trunc <16 x i32> %bit185 to <16 x i16>
  %cast187 = bitcast <16 x float> %add156 to <16 x i32>
  %bit188 = or <16 x i32> %cast187, splat (i32 4194304)
  %bit189 = fcmp uno <16 x float> %add156, splat (float 0.0)
  %bit190 = lshr <16 x i32> %cast187, splat (i32 16)
  %bit191 = and <16 x i32> %bit190, splat (i32 1)
  %bit192 = add <16 x i32> %cast187, splat (i32 32767)
  %bit193 = add <16 x i32> %bit192, %bit191
  %cast194 = select <16 x i1> %bit189, <16 x i32> %bit188, <16 x i32> %bit193
  %bit195 = lshr <16 x i32> %cast194, splat (i32 16)
  %cast196 = trunc <16 x i32> %bit195 to <16 x i16>
  %mul197 = mul nsw i64 %r0, 58
  %add198 = add nsw i64 %mul197, %mul60
  %add199 = add nsw i64 %mul197, %mul61
  %add200 = add nsw i64 %add198, %mul1
  %add201 = add nsw i64 %add198, %mul2
  %add202 = add nsw i64 %add199, %mul1
  %add203 = add nsw i64 %add199, %mul2
  %p204 = getelementptr i16, ptr %data0, i64 %add200
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast166, ptr %p204, i32 2, <16 x i1> %and68)
  %p205 = getelementptr i16, ptr %data0, i64 %add201
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast176, ptr %p205, i32 2, <16 x i1> %and69)
  %p206 = getelementptr i16, ptr %data0, i64 %add202
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast186, ptr %p206, i32 2, <16 x i1> %and72)
  %p207 = getelementptr i16, ptr %data0, i64 %add203
  call void @llvm.masked.store.v16i16.p0(<16 x i16> %cast196, ptr %p207, i32 2, <16 x i1> %and73)
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more208 = icmp slt i64 %next0, 19
  br i1 %more208, label %loop0, label %exit0
exit0:
  ret void
}

define void @"r_37_29_41"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %at2
  %room = getelementptr ptr, ptr %variables, i64 2
  %scratch = load ptr, ptr %room
  call void @"r_37_29_41.body"(ptr %data0, ptr %data1, ptr %data2, ptr %scratch)
  ret void
}

declare <16 x float> @dot2(<16 x float>, <32 x bfloat>, <32 x bfloat>)
declare <16 x i16> @llvm.masked.load.v16i16.p0(ptr, i32, <16 x i1>, <16 x i16>)
declare void @llvm.masked.store.v16i16.p0(<16 x i16>, ptr, i32, <16 x i1>)
attributes #0 = { nounwind }
